#include "plugins/tasks/common/hugging_face/weights.hpp"

#include <ATen/ATen.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <stdexcept>

namespace pipeline::hugging_face {

at::ScalarType scalar_type(const safetensors::TensorView& tensor, const std::string& folder) {
  const std::string_view name = tensor.dtype_name();
  if (name == "F32") return at::kFloat;
  if (name == "F16") return at::kHalf;
  if (name == "BF16") return at::kBFloat16;
  if (name == "F64") return at::kDouble;
  throw std::runtime_error(folder + ": " + tensor.name + " has dtype " + std::string(name) +
                           ": must be F32, F16, BF16 or F64");
}

void copy_converted(const safetensors::TensorView& tensor, const std::string& folder, at::Tensor& out) {
  const at::ScalarType type = scalar_type(tensor, folder);
  TORCH_CHECK(out.is_contiguous() && out.is_cpu() && out.scalar_type() == at::kFloat &&
                  out.numel() == tensor.element_count(),
              tensor.name, ": to be read into a tensor of shape ", out.sizes(), " and type ", out.scalar_type(),
              ": must be contiguous fp32 in host memory with ", tensor.element_count(), " elements");
  if (tensor.data.empty()) return;
  if (type == at::kFloat) {
    std::memcpy(out.mutable_data_ptr<float>(), tensor.data.data(), tensor.data.size());
    return;
  }
  // The file's data need not be aligned for its type: copy it first.
  const at::Tensor raw = at::empty(out.sizes(), at::TensorOptions(type));
  std::memcpy(raw.mutable_data_ptr(), tensor.data.data(), tensor.data.size());
  out.copy_(raw);
}

bool same_values(const safetensors::TensorView& a, const safetensors::TensorView& b, const std::string& folder) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype) return std::memcmp(a.data.data(), b.data.data(), b.data.size()) == 0;
  at::Tensor first = at::empty(a.shape), second = at::empty(a.shape);
  copy_converted(a, folder, first);
  copy_converted(b, folder, second);
  return first.equal(second);
}

void write_as_fp32(safetensors::Writer& writer, const std::string& name, const at::Tensor& value) {
  const at::Tensor plain = value.detach().to(at::kCPU, at::kFloat).contiguous();
  writer.write(name,
               std::as_bytes(std::span(plain.const_data_ptr<float>(), static_cast<size_t>(plain.numel()))));
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written: " + std::strerror(errno));
}

}  // namespace pipeline::hugging_face
