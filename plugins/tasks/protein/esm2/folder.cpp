#include "plugins/tasks/protein/esm2/folder.hpp"

#include <ATen/ATen.h>

#include <stdexcept>

#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/tasks/protein/esm2/folder_config.hpp"
#include "transformer/rotary.hpp"

namespace pipeline::protein::esm2 {
namespace {

using hugging_face::Piece;

constexpr const char* kWords = "esm.embeddings.word_embeddings.weight";

// Weights are (out, in) there and (in, out) here. Query, key and value are three there and one here.
std::vector<Piece> pieces_of(const Parameter& parameter) {
  const bool turned = parameter.shape.size() == 2 && parameter.name != kWords;
  const size_t fused = parameter.name.find(".qkv.");
  if (fused == std::string::npos) return {{.name = parameter.name, .transposed = turned}};
  std::vector<Piece> pieces;
  const int64_t columns = parameter.shape.back() / 3;
  for (const char* part : {".query.", ".key.", ".value."}) {
    std::string name = parameter.name;
    name.replace(fused, std::string(".qkv.").size(), part);
    pieces.push_back({name, static_cast<int64_t>(pieces.size()) * columns, columns, turned});
  }
  return pieces;
}

// Of layers in older versions of transformers.
bool is_old_frequencies(const std::string& name) {
  return name.ends_with(".attention.self.rotary_embeddings.inv_freq");
}

// transformers 5 writes the norms of layers under the names that TensorFlow has for them, and folders have
// what rotary positions make no use of.
std::string plain_name(std::string name) {
  if (name == "esm.embeddings.position_ids" || name == "esm.embeddings.position_embeddings.weight" ||
      is_old_frequencies(name))
    return "";
  for (const auto& [from, to] :
       {std::pair(".LayerNorm.gamma", ".LayerNorm.weight"), {".LayerNorm.beta", ".LayerNorm.bias"}}) {
    if (name.ends_with(from)) name.replace(name.size() - std::string(from).size(), std::string::npos, to);
  }
  return name;
}

void compare(const std::string& path, const Esm2Config& ours, const Esm2Config& theirs) {
  hugging_face::Differences differences;
  differences.compare("task.esm2.num_layers", ours.num_layers, theirs.num_layers);
  differences.compare("task.esm2.hidden_dim", ours.hidden_dim, theirs.hidden_dim);
  differences.compare("task.esm2.num_heads", ours.num_heads, theirs.num_heads);
  differences.compare("task.esm2.intermediate_dim", ours.inner(), theirs.inner());
  differences.compare("task.esm2.token_dropout", ours.token_dropout, theirs.token_dropout);
  differences.compare("task.esm2.layer_norm_epsilon", ours.layer_norm_epsilon, theirs.layer_norm_epsilon);
  differences.raise(path);
}

}  // namespace

Extras import_folder(const std::string& path, const Esm2Config& config, ParameterRegistry& parameters) {
  compare(path, config, read_config(path + "/config.json"));
  check_vocabulary(path + "/vocab.txt");
  Extras extras;
  hugging_face::NameMap map{
      .pieces = pieces_of, .plain_name = plain_name, .head = "lm_head.decoder.weight", .tied_to = kWords};
  Extras::each(extras, config, [&](const char* name, const at::Tensor&, const std::vector<int64_t>& shape) {
    map.optional.emplace_back(name, shape);
  });
  const auto weights = hugging_face::import_weights(path, parameters, map);
  Extras::each(extras, config, [&](const char* name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
    tensor = weights->find(name, shape);
  });
  for (const std::string& name : weights->names()) {
    if (!is_old_frequencies(name)) continue;
    const at::Tensor frequencies = weights->find(name, {config.head_width() / 2});
    if (!extras.frequencies.defined()) extras.frequencies = frequencies;
    if (!frequencies.equal(extras.frequencies))
      throw std::runtime_error(path + ": " + name +
                               " differs from those of other layers: only one set of rotary "
                               "frequencies is supported");
  }
  if (extras.frequencies.defined() &&
      extras.frequencies.equal(transformer::rotary_frequencies(config.head_width())))
    extras.frequencies = at::Tensor();
  return extras;
}

void export_folder(const std::string& path, const Esm2Config& config, const ParameterRegistry& parameters,
                   const Extras& extras) {
  Extras all = extras;
  if (!all.frequencies.defined()) all.frequencies = transformer::rotary_frequencies(config.head_width());
  std::vector<std::pair<std::string, at::Tensor>> others;
  Extras::each(all, config,
               [&](const char* name, const at::Tensor& tensor, const std::vector<int64_t>& shape) {
                 others.emplace_back(name, tensor.defined() ? tensor : at::zeros(shape));
               });
  hugging_face::export_weights(path, parameters, {.pieces = pieces_of}, others);
  hugging_face::write_text(path + "/config.json", format_config(config));
  write_tokenizer(path);
}

}  // namespace pipeline::protein::esm2
