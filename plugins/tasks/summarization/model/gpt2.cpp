#include "gpt2.hpp"

#include <ATen/ATen.h>

#include "transformer/checkpoint.hpp"
#include "transformer/dropout.hpp"
#include "transformer/embedding.hpp"
#include "transformer/to_device.hpp"

namespace pipeline::summarization {
namespace {

using transformer::AttentionLayout;
using transformer::Dropout;
using transformer::Linear;
using transformer::Norm;

// The places of dropout: 0 the embedding, then three per layer.
enum class Site : uint64_t { kAttention, kProjection, kMlp };

Dropout dropout_at(const ForwardOptions& options, double p, int64_t layer, Site site) {
  if (!options.training || p == 0) return {};
  return {p, transformer::dropout_key(options.dropout_seed,
                                      1 + 3 * static_cast<uint64_t>(layer) + static_cast<uint64_t>(site))};
}

// Below this share of rows with a target the last layer computes only those.
constexpr double kFewRows = 0.75;

}  // namespace

PackedBatch pack(const std::vector<std::vector<int64_t>>& tokens,
                 const std::vector<std::vector<int64_t>>& targets) {
  TORCH_CHECK(tokens.size() == targets.size(), "pack: ", tokens.size(), " sequences, ", targets.size(),
              " rows of targets");
  PackedBatch batch;
  std::vector<int64_t> ids, positions, wanted;
  for (size_t s = 0; s < tokens.size(); ++s) {
    TORCH_CHECK(tokens[s].size() == targets[s].size(), "pack: sequence ", s, " has ", tokens[s].size(),
                " tokens, ", targets[s].size(), " targets");
    ids.insert(ids.end(), tokens[s].begin(), tokens[s].end());
    wanted.insert(wanted.end(), targets[s].begin(), targets[s].end());
    for (size_t i = 0; i < tokens[s].size(); ++i) positions.push_back(static_cast<int64_t>(i));
    batch.sequences.append(static_cast<int64_t>(tokens[s].size()));
  }
  batch.tokens = at::tensor(ids, at::kLong);
  batch.positions = at::tensor(positions, at::kLong);
  batch.targets = at::tensor(wanted, at::kLong);
  for (size_t n = 0; n < wanted.size(); ++n) {
    if (wanted[n] >= 0) batch.target_rows.push_back(static_cast<int64_t>(n));
  }
  return batch;
}

std::vector<at::Tensor> Gpt2Layer::parameters() const {
  return {ln_1.weight,
          ln_1.bias,
          attention.weight,
          attention.bias,
          attention_projection.weight,
          attention_projection.bias,
          ln_2.weight,
          ln_2.bias,
          up.weight,
          up.bias,
          down.weight,
          down.bias};
}

Gpt2::Gpt2(const Gpt2Config& config) : config_(config) {
  config_.check();
  const int64_t width = config_.n_embd;
  const auto child = [](torch::nn::Module& owner, const std::string& name) {
    return owner.register_module(name, std::make_shared<torch::nn::Module>(name));
  };
  const auto transformer = child(*this, "transformer");
  wte_ = parameter(*child(*transformer, "wte"), "weight", {config_.vocab_size, width});
  wpe_ = parameter(*child(*transformer, "wpe"), "weight", {config_.n_positions, width});
  const auto h = child(*transformer, "h");
  for (int64_t i = 0; i < config_.n_layer; ++i) {
    const auto block = child(*h, std::to_string(i));
    Gpt2Layer layer;
    layer.ln_1 = norm(*child(*block, "ln_1"));
    const auto attention = child(*block, "attn");
    layer.attention = linear(*child(*attention, "c_attn"), width, 3 * width);
    layer.attention_projection = linear(*child(*attention, "c_proj"), width, width);
    layer.ln_2 = norm(*child(*block, "ln_2"));
    const auto mlp = child(*block, "mlp");
    layer.up = linear(*child(*mlp, "c_fc"), width, config_.inner());
    layer.down = linear(*child(*mlp, "c_proj"), config_.inner(), width);
    layers_.push_back(layer);
  }
  final_norm_ = norm(*child(*transformer, "ln_f"));
}

at::Tensor Gpt2::parameter(torch::nn::Module& owner, const std::string& name, at::IntArrayRef shape) {
  return owner.register_parameter(name, at::empty(shape, at::kFloat));
}

Norm Gpt2::norm(torch::nn::Module& owner) {
  return {parameter(owner, "weight", {config_.n_embd}), parameter(owner, "bias", {config_.n_embd}),
          config_.layer_norm_epsilon};
}

Linear Gpt2::linear(torch::nn::Module& owner, int64_t in, int64_t out) {
  return {parameter(owner, "weight", {in, out}), parameter(owner, "bias", {out})};
}

at::Tensor Gpt2::embed(const at::Tensor& tokens, const at::Tensor& positions, const ForwardOptions& options,
                       std::shared_ptr<transformer::SharedGradient> shared) const {
  Dropout dropout;
  if (options.training) dropout = {config_.embd_pdrop, transformer::dropout_key(options.dropout_seed, 0)};
  return transformer::embed(tokens, positions, wte_, wpe_, dropout, std::move(shared));
}

Tensors Gpt2::run_unit(int64_t unit, const Tensors& inputs, const UnitBody& body) const {
  return wrapper_ ? wrapper_(unit, inputs, body) : body(inputs);
}

at::Tensor Gpt2::layer(int64_t index, const at::Tensor& x, const AttentionLayout& layout,
                       const ForwardOptions& options) const {
  const Gpt2Layer& w = layers_[static_cast<size_t>(index)];
  const at::Tensor qkv = transformer::norm_linear(x, w.ln_1, w.attention, options.compute);
  const at::Tensor h = transformer::ragged_self_attention(
      qkv, layout, dropout_at(options, config_.attn_pdrop, index, Site::kAttention));
  const at::Tensor middle = transformer::linear_residual(
      h, w.attention_projection, x, dropout_at(options, config_.resid_pdrop, index, Site::kProjection));
  return transformer::norm_mlp_residual(middle, w.ln_2, w.up, w.down,
                                        dropout_at(options, config_.resid_pdrop, index, Site::kMlp),
                                        options.compute);
}

at::Tensor Gpt2::layer_at(int64_t index, const at::Tensor& x, const at::Tensor& rows,
                          const AttentionLayout& layout, const ForwardOptions& options) const {
  const Gpt2Layer& w = layers_[static_cast<size_t>(index)];
  const int64_t width = config_.n_embd;
  const at::Tensor kv =
      transformer::norm_linear(x, w.ln_1, transformer::columns(w.attention, width, 2 * width), options.compute);
  const at::Tensor picked = x.index_select(0, rows);
  const at::Tensor q =
      transformer::norm_linear(picked, w.ln_1, transformer::columns(w.attention, 0, width), options.compute);
  const at::Tensor h =
      transformer::ragged_attention(q, kv.narrow(1, 0, width), kv.narrow(1, width, width), layout,
                                    dropout_at(options, config_.attn_pdrop, index, Site::kAttention));
  const at::Tensor middle = transformer::linear_residual(
      h, w.attention_projection, picked, dropout_at(options, config_.resid_pdrop, index, Site::kProjection));
  return transformer::norm_mlp_residual(middle, w.ln_2, w.up, w.down,
                                        dropout_at(options, config_.resid_pdrop, index, Site::kMlp),
                                        options.compute);
}

at::Tensor Gpt2::body(const PackedBatch& batch, const std::vector<int64_t>& rows,
                      const ForwardOptions& options,
                      std::shared_ptr<transformer::SharedGradient> shared) const {
  AttentionLayout layout;
  layout.queries = layout.keys = batch.sequences;
  layout.heads = config_.n_head;
  const int64_t count = batch.sequences.rows();
  const bool few = !rows.empty() && static_cast<double>(rows.size()) < kFewRows * static_cast<double>(count);
  const bool all = static_cast<int64_t>(rows.size()) == count;
  const at::Tensor index = all ? at::Tensor() : transformer::to_device(rows, batch.tokens.device());
  at::Tensor x = run_unit(0, {}, [&](const Tensors&) {
    return Tensors{embed(batch.tokens, batch.positions, options, std::move(shared))};
  })[0];
  for (int64_t i = 0; i < config_.n_layer; ++i) {
    std::function<at::Tensor(const at::Tensor&)> run;
    if (few && i + 1 == config_.n_layer) {
      run = [this, i, index, at = transformer::queries_at(layout, rows), options](const at::Tensor& input) {
        return layer_at(i, input, index, at, options);
      };
    } else {
      run = [this, i, layout, options](const at::Tensor& input) { return layer(i, input, layout, options); };
    }
    if (options.checkpoint_activations) {
      run = [this, i, run = std::move(run)](const at::Tensor& input) {
        return transformer::checkpoint(run, input, layers_[static_cast<size_t>(i)].parameters());
      };
    }
    x = run_unit(i + 1, {x}, [run = std::move(run)](const Tensors& in) { return Tensors{run(in[0])}; })[0];
  }
  return few || all ? x : x.index_select(0, index);
}

transformer::Loss Gpt2::loss(const PackedBatch& batch, const ForwardOptions& options) {
  TORCH_CHECK(
      batch.tokens.size(0) == batch.sequences.rows() && batch.targets.size(0) == batch.sequences.rows(),
      "GPT-2: ", batch.tokens.size(0), " tokens and ", batch.targets.size(0), " targets for sequences of ",
      batch.sequences.rows(), " rows in all");
  const auto shared = wte_.requires_grad() ? std::make_shared<transformer::SharedGradient>() : nullptr;
  if (shared) {
    shared->take_head = options.take_head;
    shared->take_rows = options.take_rows;
  }
  const at::Tensor x = body(batch, batch.target_rows, options, shared);
  const at::Tensor targets =
      x.size(0) == batch.targets.size(0)
          ? batch.targets
          : batch.targets.index_select(0, transformer::to_device(batch.target_rows, x.device()));
  const Tensors out = run_unit(0, {x}, [&](const Tensors& in) {
    const transformer::Loss loss = transformer::cross_entropy_head(in[0], targets, final_norm_, wte_,
                                                                   {.scale = options.scale,
                                                                    .chunk = options.head_chunk,
                                                                    .compute = options.compute,
                                                                    .shared = shared,
                                                                    .factor_is_one = true});
    return Tensors{loss.sum, loss.scaled};
  });
  return {out[0], out[1]};
}

at::Tensor Gpt2::logits(const PackedBatch& batch, const at::Tensor& rows, at::ScalarType compute) {
  const at::NoGradGuard no_grad;
  ForwardOptions options;
  options.compute = compute;
  const at::Tensor host = rows.to(at::kCPU).contiguous();
  const std::vector<int64_t> wanted(host.const_data_ptr<int64_t>(),
                                    host.const_data_ptr<int64_t>() + host.numel());
  const at::Tensor x = body(batch, wanted, options, nullptr);
  return transformer::head_logits(x, final_norm_, wte_, compute);
}

}  // namespace pipeline::summarization
