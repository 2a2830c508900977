#include "hugging_face.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <map>
#include <stdexcept>

#include "core/safetensors/folder.hpp"
#include "hugging_face_config.hpp"
#include "plugins/tasks/common/hugging_face/problems.hpp"
#include "plugins/tasks/common/hugging_face/weights.hpp"

namespace pipeline::summarization {
namespace {

using safetensors::TensorView;

constexpr const char* kPrefix = "transformer.";

std::string without_prefix(const std::string& name) {
  return name.starts_with(kPrefix) ? name.substr(std::strlen(kPrefix)) : name;
}

// The causal mask, kept as a buffer by older versions of transformers.
bool is_mask(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace

HuggingFaceGpt2::HuggingFaceGpt2(const std::string& folder)
    : config_(read_gpt2_config(folder + "/config.json")),
      parameters_(parameter_list(config_)),
      folder_(std::make_unique<const safetensors::Folder>(safetensors::Folder::open(folder))) {
  match();
  check_head();
}

HuggingFaceGpt2::~HuggingFaceGpt2() = default;

void HuggingFaceGpt2::match() {
  hugging_face::Problems problems;
  std::map<std::string, const TensorView*> found;  // by name without prefix
  for (const std::string& name : folder_->names()) {
    const TensorView& tensor = folder_->at(name);
    if (name == "lm_head.weight") {
      head_ = &tensor;
    } else if (!is_mask(name) && !found.emplace(without_prefix(name), &tensor).second) {
      problems.add("twice, with and without \"transformer.\"", without_prefix(name));
    }
  }
  for (const ParameterInfo& parameter : parameters_) {
    const auto match = found.find(without_prefix(parameter.name));
    if (match == found.end()) {
      problems.add("missing", without_prefix(parameter.name));
      tensors_.push_back(nullptr);
      continue;
    }
    const TensorView& tensor = *match->second;
    if (tensor.shape != parameter.shape) problems.add_shape(tensor.name, tensor.shape, parameter.shape);
    hugging_face::scalar_type(tensor, folder_->path());
    tensors_.push_back(&tensor);
    found.erase(match);
  }
  for (const auto& [name, tensor] : found) problems.add("unexpected", tensor->name);
  problems.raise(folder_->path());
}

void HuggingFaceGpt2::check_head() const {
  if (!head_) return;
  const TensorView& embedding = *tensors_.front();
  if (!hugging_face::same_values(*head_, embedding, folder_->path())) {
    throw std::runtime_error(folder_->path() + ": lm_head.weight differs from " + embedding.name +
                             ": only an output head tied to the token embedding is supported");
  }
  head_->forget();
}

void HuggingFaceGpt2::read(size_t index, at::Tensor& out) const {
  TORCH_CHECK(out.sizes() == at::IntArrayRef(parameters_.at(index).shape) && out.is_contiguous() &&
                  out.is_cpu() && out.scalar_type() == at::kFloat,
              parameters_.at(index).name, ": to be read into a tensor of shape ", out.sizes(), " and type ",
              out.scalar_type(), ": must be contiguous fp32 in host memory of shape ",
              at::IntArrayRef(parameters_.at(index).shape));
  hugging_face::copy_converted(*tensors_[index], folder_->path(), out);
  tensors_[index]->forget();
}

void save_hugging_face_gpt2(const std::string& folder, const Gpt2Config& config,
                            const std::function<at::Tensor(size_t index)>& value) {
  const std::vector<ParameterInfo> parameters = parameter_list(config);
  safetensors::Writer writer(folder + "/model.safetensors", {.sync = true});
  for (const ParameterInfo& parameter : parameters)
    writer.declare(parameter.name, safetensors::Dtype::kF32, parameter.shape);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor tensor = value(i);
    TORCH_CHECK(tensor.sizes() == at::IntArrayRef(parameters[i].shape), parameters[i].name,
                ": to be saved with shape ", tensor.sizes(), ": must be ",
                at::IntArrayRef(parameters[i].shape));
    hugging_face::write_as_fp32(writer, parameters[i].name, tensor);
  }
  writer.finish();
  hugging_face::write_text(folder + "/config.json", format_gpt2_config(config));
  hugging_face::write_text(folder + "/generation_config.json", format_generation_config(config));
}

}  // namespace pipeline::summarization
