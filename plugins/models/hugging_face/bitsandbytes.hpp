// Folders whose matrices bitsandbytes has quantized: Linear4bit's with NF4, and Linear8bitLt's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "quantization/matrix_form.hpp"

namespace pipeline::safetensors {
struct TensorView;
}  // namespace pipeline::safetensors

namespace pipeline::hugging_face {

class ConfigFile;

// Checks quantization_config, which may be missing: what is quantized in another way is refused by its name.
void check_quantization(const ConfigFile& file);

using FindTensor = std::function<const safetensors::TensorView*(const std::string& name)>;

// Whether a tensor is one of those that say how another's codes are meant.
bool is_beside_codes(const std::string& name, const FindTensor& find);

// The codes of a matrix (out, in), and what is beside them. Views of the folder's files.
class QuantizedMatrix {
 public:
  // Null for a weight that is not quantized. Throws Error (PL_ERROR_CONFIG) for one that is in another way.
  static std::unique_ptr<const QuantizedMatrix> of(const safetensors::TensorView& weight,
                                                   const FindTensor& find);

  const std::vector<int64_t>& shape() const { return shape_; }
  at::Tensor values() const;  // (out, in) float32
  // Whether rows of this form have just these values, and writes them as such.
  bool is_in(quantization::Form form) const;
  void arrange(std::byte* out) const;

 private:
  QuantizedMatrix() = default;

  quantization::Form form_ = quantization::Form::kNf4;
  std::vector<int64_t> shape_;
  const safetensors::TensorView* codes_ = nullptr;
  std::vector<float> scales_;   // INT8: of rows; NF4: of 256 sizes each, or the sizes themselves
  std::vector<uint8_t> sizes_;  // NF4: of blocks, in 8 bits; empty: scales_ are the sizes
  float mean_ = 0;
};

}  // namespace pipeline::hugging_face
