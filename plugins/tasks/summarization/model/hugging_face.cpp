#include "hugging_face.hpp"

#include <ATen/ATen.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>

#include "core/safetensors/folder.hpp"
#include "core/safetensors/writer.hpp"
#include "hugging_face_config.hpp"

namespace pipeline::summarization {
namespace {

using safetensors::TensorView;

constexpr const char* kPrefix = "transformer.";
constexpr size_t kMostListed = 20;

std::string without_prefix(const std::string& name) {
  return name.starts_with(kPrefix) ? name.substr(std::strlen(kPrefix)) : name;
}

// The causal mask, kept as a buffer by older versions of transformers.
bool is_mask(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

at::ScalarType scalar_type(const TensorView& tensor, const std::string& folder) {
  const std::string_view name = tensor.dtype_name();
  if (name == "F32") return at::kFloat;
  if (name == "F16") return at::kHalf;
  if (name == "BF16") return at::kBFloat16;
  if (name == "F64") return at::kDouble;
  throw std::runtime_error(folder + ": " + tensor.name + " has dtype " + std::string(name) +
                           ": must be F32, F16, BF16 or F64");
}

void copy_converted(const TensorView& tensor, const std::string& folder, at::Tensor& out) {
  const at::ScalarType type = scalar_type(tensor, folder);
  if (type == at::kFloat) {
    std::memcpy(out.mutable_data_ptr<float>(), tensor.data.data(), tensor.data.size());
    return;
  }
  // The file's data need not be aligned for its type: copy it first.
  const at::Tensor raw = at::empty(out.sizes(), at::TensorOptions(type));
  std::memcpy(raw.mutable_data_ptr(), tensor.data.data(), tensor.data.size());
  out.copy_(raw);
}

class Problems {
 public:
  void add(const std::string& kind, const std::string& what) { lists_[kind].push_back(what); }

  // All of them in one error; `folder` comes first.
  void raise(const std::string& folder) const {
    if (lists_.empty()) return;
    std::string message = folder + ": the weights are not those of its config.json:";
    for (const auto& [kind, list] : lists_) {
      message += "\n  " + kind + " (" + std::to_string(list.size()) + "): ";
      for (size_t i = 0; i < list.size() && i < kMostListed; ++i) message += (i ? ", " : "") + list[i];
      if (list.size() > kMostListed)
        message += ", and " + std::to_string(list.size() - kMostListed) + " more";
    }
    throw std::runtime_error(message);
  }

 private:
  std::map<std::string, std::vector<std::string>> lists_;
};

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written: " + std::strerror(errno));
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
  Problems problems;
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
    if (tensor.shape != parameter.shape) {
      problems.add("of another shape", tensor.name + " is " + safetensors::shape_string(tensor.shape) +
                                           ", must be " + safetensors::shape_string(parameter.shape));
    }
    scalar_type(tensor, folder_->path());
    tensors_.push_back(&tensor);
    found.erase(match);
  }
  for (const auto& [name, tensor] : found) problems.add("unexpected", tensor->name);
  problems.raise(folder_->path());
}

void HuggingFaceGpt2::check_head() const {
  if (!head_) return;
  const TensorView& embedding = *tensors_.front();
  const bool same_shape = head_->shape == embedding.shape;
  bool same = same_shape && head_->dtype == embedding.dtype &&
              std::memcmp(head_->data.data(), embedding.data.data(), embedding.data.size()) == 0;
  if (same_shape && !same && head_->dtype != embedding.dtype) {
    at::Tensor a = at::empty(parameters_.front().shape), b = at::empty_like(a);
    copy_converted(*head_, folder_->path(), a);
    copy_converted(embedding, folder_->path(), b);
    same = a.equal(b);
  }
  if (!same) {
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
  copy_converted(*tensors_[index], folder_->path(), out);
  tensors_[index]->forget();
}

void save_hugging_face_gpt2(const std::string& folder, const Gpt2Config& config,
                            const std::function<at::Tensor(size_t index)>& value) {
  const std::vector<ParameterInfo> parameters = parameter_list(config);
  safetensors::Writer writer(folder + "/model.safetensors", {.sync = true});
  for (const ParameterInfo& parameter : parameters)
    writer.declare(parameter.name, safetensors::Dtype::kF32, parameter.shape);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor tensor = value(i).detach().to(at::kCPU, at::kFloat).contiguous();
    TORCH_CHECK(tensor.sizes() == at::IntArrayRef(parameters[i].shape), parameters[i].name,
                ": to be saved with shape ", tensor.sizes(), ": must be ",
                at::IntArrayRef(parameters[i].shape));
    writer.write(parameters[i].name, std::as_bytes(std::span(tensor.const_data_ptr<float>(),
                                                             static_cast<size_t>(tensor.numel()))));
  }
  writer.finish();
  write_text(folder + "/config.json", format_gpt2_config(config));
  write_text(folder + "/generation_config.json", format_generation_config(config));
}

}  // namespace pipeline::summarization
