#include "language/llama.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/rotary.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;
using hugging_face::Piece;
using nlohmann::json;

const hugging_face::Fields<LlamaConfig>& llama_fields() {
  using namespace hugging_face;
  static const Fields<LlamaConfig> kFields{
      {"vocab_size", &LlamaConfig::vocab_size},
      {"max_position_embeddings", &LlamaConfig::max_position_embeddings},
      {"hidden_size", &LlamaConfig::hidden_size},
      {"num_hidden_layers", &LlamaConfig::num_hidden_layers},
      {"num_attention_heads", &LlamaConfig::num_attention_heads},
      {"num_key_value_heads", &LlamaConfig::num_key_value_heads},
      {"head_dim", &LlamaConfig::head_dim},
      {"intermediate_size", &LlamaConfig::intermediate_size},
      {"rms_norm_eps", &LlamaConfig::rms_norm_eps},
      {"rope_theta", &LlamaConfig::rope_theta},
      {"rope_scaling", kReadElsewhere},
      {"rope_parameters", kReadElsewhere},  // with rope_theta in it, since transformers 5
      {"initializer_range", &LlamaConfig::initializer_range},
      {"attention_dropout", &LlamaConfig::attention_dropout},
      {"tie_word_embeddings", &LlamaConfig::tie_word_embeddings},
      {"hidden_act", only({"silu", "swish"})},
      {"attention_bias", only({false})},
      {"mlp_bias", only({false})},
      {"partial_rotary_factor", only({1.0})},
      {"sliding_window", only({nullptr})},
      {"pretraining_tp", kWithoutEffect},  // in how many slices a product was computed
      {"is_llama_config", kWithoutEffect},
  };
  return kFields;
}

std::string replaced(std::string name, const char* from, const char* to) {
  return name.replace(name.find(from), std::string_view(from).size(), to);
}

// more_tokens: see llama_pieces().
hugging_face::NameMap llama_names(const Llama& model, int64_t more_tokens = 0, const FolderPart& part = {}) {
  const bool tied = model.config().tie_word_embeddings;
  return {.pieces =
              [&model, more_tokens](const Parameter& p) {
                return p.name.starts_with(model.place().prefix)
                           ? llama_pieces(p, model.config(), model.place().prefix, more_tokens)
                           : std::vector<Piece>();
              },
          .plain_name =
              [name_of = part.name](const std::string& name) {
                if (name.ends_with("rotary_emb.inv_freq"))
                  return std::string();  // a buffer of older versions
                return name_of ? name_of(name) : name;
              },
          .value = [&model](const ParameterRegistry::Declared& p) { return model.merged(p); },
          .head = tied ? "lm_head.weight" : "",
          .tied_to = tied ? "model.embed_tokens.weight" : ""};
}

}  // namespace

void LlamaConfig::check() const {
  using namespace hugging_face;
  constexpr int64_t kMostRows = 1 << 24, kMostWidth = 1 << 20, kMostLayers = 1 << 14;
  check_range("vocab_size", vocab_size, 1, kMostRows);
  check_range("max_position_embeddings", max_position_embeddings, 1, kMostRows);
  check_range("hidden_size", hidden_size, 1, kMostWidth);
  check_range("num_hidden_layers", num_hidden_layers, 1, kMostLayers);
  check_range("num_attention_heads", num_attention_heads, 1, kMostWidth);
  check_range("num_key_value_heads", num_key_value_heads, 1, num_attention_heads);
  check_range("head_dim", head_dim, 0, kMostWidth);
  check_range("intermediate_size", intermediate_size, 1, kMostWidth);
  if (head_dim == 0 && hidden_size % num_attention_heads != 0)
    fail_with(PL_ERROR_CONFIG, "num_attention_heads = ", num_attention_heads, ": must divide hidden_size (",
              hidden_size, ")");
  if (num_attention_heads % num_key_value_heads != 0)
    fail_with(PL_ERROR_CONFIG, "num_key_value_heads = ", num_key_value_heads,
              ": must divide num_attention_heads (", num_attention_heads, ")");
  if (head_width() % 2 != 0)
    fail_with(PL_ERROR_CONFIG, "num_attention_heads = ", num_attention_heads, ": gives heads of ",
              head_width(), " channels: rotary positions need an even number");
  check_positive("rms_norm_eps", rms_norm_eps);
  check_positive("rope_theta", rope_theta);
  rope_scaling.check();
  check_positive("initializer_range", initializer_range);
  check_share("attention_dropout", attention_dropout);
}

void LoraConfig::check() const {
  hugging_face::check_range("lora.rank", rank, 0, 1 << 14);
  hugging_face::check_positive("lora.alpha", alpha);
  if (const std::string problem = targets_problem(); !problem.empty())
    fail_with(PL_ERROR_CONFIG, "lora.targets ", problem);
}

std::string LoraConfig::targets_problem() const {
  if (rank > 0 && targets.empty()) return "is empty: must name a matrix, or rank must be 0";
  for (size_t i = 0; i < targets.size(); ++i) {
    if (std::find(targets.begin(), targets.begin() + static_cast<int64_t>(i), targets[i]) !=
        targets.begin() + static_cast<int64_t>(i))
      return concat("has \"", targets[i], "\" twice");
    if (std::find(kTargets.begin(), kTargets.end(), targets[i]) != kTargets.end()) continue;
    std::string known;
    for (const char* target : kTargets) known += concat(known.empty() ? "\"" : "\", \"", target);
    return concat("has \"", targets[i], "\": must be of ", known, "\"");
  }
  return "";
}

Llama::Llama(const LlamaConfig& config, Place place, const LoraConfig& lora)
    : LanguageModel(std::move(place)), config_(config) {
  config_.check();
  lora.check();
  const int64_t width = config_.hidden_size, head = config_.head_width(),
                queries = config_.num_attention_heads * head, keys = config_.num_key_value_heads * head,
                inner = config_.intermediate_size;
  const double range = config_.initializer_range;
  const auto table = [&](const char* plain) {
    return parameters().add({.name = name(plain), .shape = {config_.vocab_size, width}, .unit = unit(0)},
                            normal(range));
  };
  const auto norm = [&](const std::string& plain, uint32_t of) {
    return transformer::Norm{
        parameters().add({.name = name(plain) + ".weight", .shape = {width}, .decay = false, .unit = of},
                         constant(1)),
        {},
        config_.rms_norm_eps};
  };
  embedding_ = table("model.embed_tokens.weight");
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string of = "model.layers." + std::to_string(i) + ".";
    const uint32_t u = unit(static_cast<uint32_t>(i + 1));
    const auto matrix = [&](const char* part, int64_t in, int64_t out) {
      return transformer::Linear{transformer::add_matrix(parameters(), name(of + part), in, out, u, range),
                                 {}};
    };
    transformer::Layer layer{.attention_norm = norm(of + "input_layernorm", u),
                             .qkv = matrix("self_attn.qkv_proj", width, queries + 2 * keys),
                             .projection = matrix("self_attn.o_proj", queries, width),
                             .mlp_norm = norm(of + "post_attention_layernorm", u),
                             .up = matrix("mlp.gate_up_proj", width, 2 * inner),
                             .down = matrix("mlp.down_proj", inner, width),
                             .is_gated = true};
    layers_.push_back(std::move(layer));
    if (lora.rank > 0) add_lora(lora, static_cast<uint32_t>(i));
  }
  last_norm_ = norm("model.norm", unit(0));
  if (!config_.tie_word_embeddings) head_ = table("lm_head.weight");
  frequencies_ = config_.rope_scaling.scaled(transformer::rotary_frequencies(head, config_.rope_theta));
}

// `down` as PEFT has it, uniform within 1 / sqrt(in); `up` is zero.
void Llama::add_lora(const LoraConfig& lora, uint32_t layer) {
  transformer::Layer& of = layers_.at(layer);
  const int64_t queries = heads() * head_width(), keys = key_heads() * head_width(),
                inner = config_.intermediate_size;
  // To columns `first` on of a matrix that reads `in`.
  const auto add = [&](std::vector<transformer::LowRank>& additions, const char* part, const char* target,
                       int64_t first, int64_t in, int64_t out) {
    if (std::find(lora.targets.begin(), lora.targets.end(), target) == lora.targets.end()) return;
    const std::string name = concat("lora.model.layers.", layer, ".", part, ".", target);
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    const auto matrix = [&](const char* end, int64_t rows, int64_t columns, InitialValue initial) {
      return parameters().add(
          {.name = name + end, .shape = {rows, columns}, .unit = unit(layer + 1), .is_new = true},
          std::move(initial));
    };
    const auto uniform = [bound](at::Tensor& values, uint64_t seed) {
      values.uniform_(-bound, bound, make_generator(seed));
    };
    at::Tensor down = matrix(".down", in, lora.rank, uniform);
    additions.push_back({.down = std::move(down),
                         .up = matrix(".up", lora.rank, out, constant(0)),
                         .first = first,
                         .scale = lora.alpha / static_cast<double>(lora.rank)});
  };
  add(of.qkv_additions, "self_attn", "q_proj", 0, width(), queries);
  add(of.qkv_additions, "self_attn", "k_proj", queries, width(), keys);
  add(of.qkv_additions, "self_attn", "v_proj", queries + keys, width(), keys);
  add(of.projection_additions, "self_attn", "o_proj", 0, queries, width());
  add(of.up_additions, "mlp", "gate_proj", 0, width(), inner);
  add(of.up_additions, "mlp", "up_proj", inner, width(), inner);
  add(of.down_additions, "mlp", "down_proj", 0, inner, width());
}

at::Tensor Llama::merged(const ParameterRegistry::Declared& parameter) const {
  const at::Tensor value = parameter.tensor.detach();
  for (const transformer::Layer& layer : layers_)
    for (const auto& [matrix, additions] : {std::pair(&layer.qkv, &layer.qkv_additions),
                                            {&layer.projection, &layer.projection_additions},
                                            {&layer.up, &layer.up_additions},
                                            {&layer.down, &layer.down_additions}}) {
      if (additions->empty() || !matrix->weight.is_same(parameter.tensor)) continue;
      const at::Tensor sum = value.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      for (const transformer::LowRank& low : *additions)
        sum.narrow(1, low.first, low.up.size(1))
            .addmm_(low.down.detach().to(at::kFloat), low.up.detach().to(at::kFloat), 1, low.scale);
      return sum;
    }
  return value;
}

at::Tensor Llama::body(const PackedBatch& batch, const Inserted& inserted, const std::vector<int64_t>& rows,
                       const ForwardPass& pass,
                       const std::shared_ptr<transformer::SharedGradient>& shared) const {
  const transformer::LayerPass layers{.layout = {.queries = batch.sequences,
                                                 .keys = batch.sequences,
                                                 .heads = config_.num_attention_heads,
                                                 .key_heads = config_.num_key_value_heads,
                                                 .full_length = batch.full_length},
                                      .rotation = transformer::rotation(batch.positions, frequencies_),
                                      .dropout = {.attention = config_.attention_dropout},
                                      .first_unit = unit(1)};
  const at::Tensor x = pass.run_once(
      unit(0),
      [&](const Tensors& in) {
        const Inserted values = in.empty() ? Inserted{} : Inserted{inserted.rows, in[0]};
        return Tensors{transformer::embed(batch.tokens, {}, embedding_, {}, {}, shared, values)};
      },
      inserted.rows.defined() ? Tensors{inserted.values} : Tensors{})[0];
  return transformer::run_layers(layers_, x, layers, pass, parameters(), rows);
}

LossSum Llama::loss(const PackedBatch& batch, const ForwardPass& pass, const Inserted& inserted) const {
  batch.check("Llama");
  const auto shared = shared_gradient(config_.tie_word_embeddings ? embedding_ : at::Tensor(), pass);
  const at::Tensor x = body(batch, inserted, batch.target_rows, pass, shared);
  const Tensors out = pass.run_once(
      unit(0),
      [&](const Tensors& in) {
        const LossSum loss = transformer::cross_entropy_head(
            in[0], batch.targets, last_norm_, head(),
            {.scale = pass.scale, .compute = pass.compute, .shared = shared, .factor_is_one = true});
        return Tensors{loss.sum, loss.scaled};
      },
      {x});
  return {out[0], out[1]};
}

at::Tensor Llama::logits(const PackedBatch& batch, const at::Tensor& rows, at::ScalarType compute,
                         const Inserted& inserted) const {
  const at::NoGradGuard no_grad;
  const at::Tensor host = rows.to(at::kCPU).contiguous();
  const std::vector<int64_t> wanted(host.const_data_ptr<int64_t>(),
                                    host.const_data_ptr<int64_t>() + host.numel());
  return logits_of(body(batch, inserted, wanted, {.compute = compute}, nullptr), compute);
}

// Of the products that are computed: 2 m n k each, and twice that again for the backward pass. The output
// head is computed where there is a target, attention on the lower triangle.
double Llama::flops(const PackedBatch& batch) const {
  const auto width = static_cast<double>(config_.hidden_size),
             queries = static_cast<double>(config_.num_attention_heads * config_.head_width()),
             keys = static_cast<double>(config_.num_key_value_heads * config_.head_width()),
             inner = static_cast<double>(config_.intermediate_size);
  double attention = 0;
  for (int64_t s = 0; s < batch.sequences.sequences(); ++s) {
    const auto length = static_cast<double>(batch.sequences.length(s));
    attention += 2 * length * length * queries;
  }
  const double layer =
      2 * static_cast<double>(batch.sequences.rows()) * width * (2 * queries + 2 * keys + 3 * inner) +
      attention;
  const double head =
      2 * static_cast<double>(batch.target_rows.size()) * width * static_cast<double>(config_.vocab_size);
  return 3 * (static_cast<double>(config_.num_hidden_layers) * layer + head);
}

at::Tensor Llama::embed_with(const at::Tensor& tokens, const at::Tensor& /*positions*/,
                             const Inserted& inserted) const {
  return transformer::embed(tokens, {}, embedding_, {}, {}, nullptr, inserted);
}

at::Tensor Llama::layer(int64_t index, const at::Tensor& x, const at::Tensor& positions,
                        at::ScalarType compute, const Attention& attend) const {
  const transformer::Layer& layer = layers_[static_cast<size_t>(index)];
  const int64_t rotated = (heads() + key_heads()) * head_width();
  const at::Tensor qkv =
      transformer::rotate_(transformer::attention_input(layer, x, 0, layer.qkv.weight.size(1), compute),
                           rotated, transformer::rotation(positions, frequencies_));
  return transformer::after_attention(layer, 0, attend(qkv), x, {}, {.compute = compute});
}

at::Tensor Llama::logits_of(const at::Tensor& x, at::ScalarType compute) const {
  return transformer::head_logits(x, last_norm_, head(), compute);
}

std::vector<Piece> llama_pieces(const Parameter& parameter, const LlamaConfig& config,
                                const std::string& prefix, int64_t more_tokens) {
  if (parameter.name.starts_with("lora.")) return {};
  const std::string name = parameter.name.substr(prefix.size());
  if (name.ends_with("embed_tokens.weight") || name == "lm_head.weight")
    return {{.name = name, .more_rows = more_tokens}};
  if (name.ends_with("qkv_proj.weight")) {
    const int64_t q = config.num_attention_heads * config.head_width(),
                  k = config.num_key_value_heads * config.head_width();
    return {{replaced(name, "qkv_proj", "q_proj"), 0, q, true},
            {replaced(name, "qkv_proj", "k_proj"), q, k, true},
            {replaced(name, "qkv_proj", "v_proj"), q + k, k, true}};
  }
  if (name.ends_with("gate_up_proj.weight")) {
    const int64_t inner = config.intermediate_size;
    return {{replaced(name, "gate_up_proj", "gate_proj"), 0, inner, true},
            {replaced(name, "gate_up_proj", "up_proj"), inner, inner, true}};
  }
  const bool is_product = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
  return {{.name = name, .transposed = is_product}};
}

LlamaConfig read_llama_config(const ConfigFile& file) {
  // transformers' defaults, which the part of a larger model's config.json may leave out.
  LlamaConfig config{.vocab_size = 32000,
                     .max_position_embeddings = 2048,
                     .hidden_size = 4096,
                     .num_hidden_layers = 32,
                     .num_attention_heads = 32,
                     .num_key_value_heads = 0,
                     .intermediate_size = 11008,
                     .rms_norm_eps = 1e-6,
                     .tie_word_embeddings = false,
                     .bos_token_id = 1,
                     .eos_token_id = 2};
  file.type({"llama"});
  config = hugging_face::read_fields(file, llama_fields(), "LlamaConfig", config);
  read_rope(file, config.rope_scaling, config.rope_theta);
  if (config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
  return file.checked(config);
}

json llama_json(const LlamaConfig& config) {
  json values = {{"model_type", "llama"},
                 {"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"mlp_bias", false},
                 {"use_cache", true},
                 {"torch_dtype", "float32"},
                 {"bos_token_id", config.bos_token_id},
                 {"eos_token_id", config.eos_token_id}};
  LlamaConfig written = config;
  written.head_dim = config.head_width();
  hugging_face::write_fields(written, llama_fields(), values);
  if (json scaling = rope_json(config.rope_scaling); !scaling.is_null()) values["rope_scaling"] = scaling;
  return values;
}

void compare_llama(const LlamaConfig& ours, const LlamaConfig& theirs,
                   hugging_face::Differences& differences) {
  const auto compare = [&](const std::string& key, auto mine, auto other) {
    differences.compare("task.language." + key, mine, other);
  };
  compare("hidden_size", ours.hidden_size, theirs.hidden_size);
  compare("num_hidden_layers", ours.num_hidden_layers, theirs.num_hidden_layers);
  compare("num_attention_heads", ours.num_attention_heads, theirs.num_attention_heads);
  compare("num_key_value_heads", ours.num_key_value_heads, theirs.num_key_value_heads);
  compare("head_dim", ours.head_width(), theirs.head_width());
  compare("intermediate_size", ours.intermediate_size, theirs.intermediate_size);
  compare("norm_eps", ours.rms_norm_eps, theirs.rms_norm_eps);
  compare("rope_theta", ours.rope_theta, theirs.rope_theta);
  compare_rope(ours.rope_scaling, theirs.rope_scaling, differences);
  compare("tie_word_embeddings", ours.tie_word_embeddings, theirs.tie_word_embeddings);
}

LlamaConfig import_llama(const std::string& folder, Llama& model, const FolderPart& part) {
  const ConfigFile file(folder + "/config.json");
  const LlamaConfig theirs = read_llama_config(part.config.empty() ? file : file.part(part.config.c_str()));
  LlamaConfig used = theirs;
  used.vocab_size = model.config().vocab_size;
  hugging_face::Differences differences;
  compare_llama(model.config(), used, differences);
  differences.raise(folder);
  const int64_t more = theirs.vocab_size - used.vocab_size;
  hugging_face::import_weights(folder, model.parameters(), llama_names(model, more, part));
  return theirs;
}

void export_llama(const std::string& folder, const Llama& model) {
  hugging_face::export_weights(folder, model.parameters(), llama_names(model));
  json values = llama_json(model.config());
  values["architectures"] = {"LlamaForCausalLM"};
  hugging_face::write_text(folder + "/config.json", values.dump(2) + "\n");
}

}  // namespace pipeline::language
