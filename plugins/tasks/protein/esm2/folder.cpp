#include "plugins/tasks/protein/esm2/folder.hpp"

#include <ATen/ATen.h>

#include <map>
#include <stdexcept>

#include "core/safetensors/folder.hpp"
#include "plugins/tasks/common/hugging_face/differences.hpp"
#include "plugins/tasks/common/hugging_face/problems.hpp"
#include "plugins/tasks/common/hugging_face/weights.hpp"
#include "plugins/tasks/protein/esm2/folder_config.hpp"
#include "transformer/rotary.hpp"

namespace pipeline::protein::esm2 {
namespace {

using hugging_face::Problems;
using safetensors::TensorView;

constexpr const char* kWords = "esm.embeddings.word_embeddings.weight";
constexpr const char* kHead = "lm_head.decoder.weight";

// A tensor of the folder: columns of one of our parameters, turned over, since weights are (out, in) there and
// (in, out) here. Query, key and value are three there and one here; all other parameters are one piece.
struct Piece {
  std::string name;
  int64_t first, columns;  // in the last dimension
  bool turned;

  at::Tensor of(const at::Tensor& parameter) const {
    const at::Tensor part = parameter.narrow(-1, first, columns);
    return turned ? part.t() : part;
  }
  std::vector<int64_t> shape(const ParameterInfo& info) const {
    if (info.shape.size() == 1) return {columns};
    return turned ? std::vector<int64_t>{columns, info.shape[0]} : std::vector<int64_t>{info.shape[0], columns};
  }
};

std::vector<Piece> pieces_of(const ParameterInfo& info) {
  const bool turned = info.shape.size() == 2 && info.name != kWords;
  const int64_t columns = info.shape.back();
  const size_t fused = info.name.find(".qkv.");
  if (fused == std::string::npos) return {{info.name, 0, columns, turned}};
  std::vector<Piece> pieces;
  for (const char* part : {".query.", ".key.", ".value."}) {
    std::string name = info.name;
    name.replace(fused, std::string(".qkv.").size(), part);
    pieces.push_back({name, static_cast<int64_t>(pieces.size()) * columns / 3, columns / 3, turned});
  }
  return pieces;
}

// Of layers in older versions of transformers.
bool is_old_frequencies(const std::string& name) { return name.ends_with(".attention.self.rotary_embeddings.inv_freq"); }

// transformers 5 writes the norms of layers under the names that TensorFlow has for them.
std::string plain_name(std::string name) {
  for (const auto& [from, to] : {std::pair(".LayerNorm.gamma", ".LayerNorm.weight"), {".LayerNorm.beta", ".LayerNorm.bias"}}) {
    if (name.ends_with(from)) name.replace(name.size() - std::string(from).size(), std::string::npos, to);
  }
  return name;
}

// Folders have what rotary positions make no use of.
bool is_unused(const std::string& name) {
  return name == "esm.embeddings.position_ids" || name == "esm.embeddings.position_embeddings.weight";
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

Folder::Folder(const std::string& path, const Esm2Config& config, const Parameters& parameters)
    : parameters_(parameters), config_(config) {
  compare(path, config, read_config(path + "/config.json"));
  check_vocabulary(path + "/vocab.txt");
  files_ = std::make_unique<const safetensors::Folder>(safetensors::Folder::open(path));
  match();
  read_extras();
}

Folder::~Folder() = default;

void Folder::match() {
  Problems problems;
  std::map<std::string, const TensorView*> left;
  for (const std::string& name : files_->names()) {
    if (!is_unused(name) && !left.emplace(plain_name(name), &files_->at(name)).second)
      problems.add("twice, under an old and a new name", plain_name(name));
  }
  const auto take = [&](const std::string& name, const std::vector<int64_t>& shape, bool optional) -> const TensorView* {
    const auto found = left.find(name);
    if (found == left.end()) {
      if (!optional) problems.add("missing", name);
      return nullptr;
    }
    const TensorView* view = found->second;
    if (view->shape != shape) problems.add_shape(view->name, view->shape, shape);
    hugging_face::scalar_type(*view, files_->path());
    left.erase(found);
    return view;
  };
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Views& views = views_.emplace_back();
    for (const Piece& piece : pieces_of(parameters_.info(i)))
      views.push_back(take(piece.name, piece.shape(parameters_.info(i)), false));
  }
  const TensorView* const head = take(kHead, parameters_.info(0).shape, true);  // that of the words
  Extras::each(extras_, config_, [&](const char* name, const at::Tensor&, const std::vector<int64_t>& shape) {
    take(name, shape, true);
  });
  for (auto it = left.begin(); it != left.end();) it = is_old_frequencies(it->first) ? left.erase(it) : std::next(it);
  for (const auto& [name, view] : left) problems.add("unexpected", view->name);
  problems.raise(files_->path());
  if (head && !hugging_face::same_values(*head, files_->at(kWords), files_->path())) {
    throw std::runtime_error(files_->path() + ": " + kHead + " differs from " + kWords +
                             ": only an output head tied to the word embeddings is supported");
  }
}

void Folder::read_extras() {
  const auto read = [&](const std::string& name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
    tensor = at::empty(shape, at::kFloat);
    hugging_face::copy_converted(files_->at(name), files_->path(), tensor);
    if (!tensor.isfinite().all().item<bool>())
      throw std::runtime_error(files_->path() + ": " + name + " has values that are not finite");
  };
  Extras::each(extras_, config_, [&](const char* name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
    if (files_->find(name)) read(name, tensor, shape);
  });
  for (const std::string& name : files_->names()) {
    if (!is_old_frequencies(name)) continue;
    at::Tensor frequencies;
    read(name, frequencies, {config_.head_width() / 2});
    if (!extras_.frequencies.defined()) extras_.frequencies = frequencies;
    if (!frequencies.equal(extras_.frequencies))
      throw std::runtime_error(files_->path() + ": " + name + " differs from those of other layers: only one set of rotary frequencies is supported");
  }
  if (extras_.frequencies.defined() && extras_.frequencies.equal(transformer::rotary_frequencies(config_.head_width())))
    extras_.frequencies = at::Tensor();
}

void Folder::read(size_t index, at::Tensor& out) const {
  const ParameterInfo& info = parameters_.info(index);
  TORCH_CHECK(out.sizes() == at::IntArrayRef(info.shape), info.name, ": to be read into a tensor of shape ", out.sizes(),
              ", must be ", at::IntArrayRef(info.shape));
  const std::vector<Piece> pieces = pieces_of(info);
  for (size_t i = 0; i < pieces.size(); ++i) {
    at::Tensor theirs = at::empty(pieces[i].shape(info), at::kFloat);
    hugging_face::copy_converted(*views_[index][i], files_->path(), theirs);
    pieces[i].of(out).copy_(theirs);
    views_[index][i]->forget();
  }
}

void write_folder(const std::string& path, const Esm2Config& config, const Parameters& parameters, const Extras& extras) {
  safetensors::Writer writer(path + "/model.safetensors", {.sync = true});
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const Piece& piece : pieces_of(parameters.info(i)))
      writer.declare(piece.name, safetensors::Dtype::kF32, piece.shape(parameters.info(i)));
  }
  Extras all = extras;
  if (!all.frequencies.defined()) all.frequencies = transformer::rotary_frequencies(config.head_width());
  Extras::each(all, config, [&](const char* name, at::Tensor& tensor, const std::vector<int64_t>& shape) {
    if (!tensor.defined()) tensor = at::zeros(shape);
    writer.declare(name, safetensors::Dtype::kF32, shape);
  });
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const Piece& piece : pieces_of(parameters.info(i)))
      hugging_face::write_as_fp32(writer, piece.name, piece.of(parameters.named()[i].second.detach()));
  }
  Extras::each(all, config, [&](const char* name, const at::Tensor& tensor, const std::vector<int64_t>&) {
    hugging_face::write_as_fp32(writer, name, tensor);
  });
  writer.finish();
  hugging_face::write_text(path + "/config.json", format_config(config));
  write_tokenizer(path);
}

}  // namespace pipeline::protein::esm2
