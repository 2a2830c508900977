#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "core/safetensors/file.hpp"
#include "core/safetensors/writer.hpp"

namespace pipeline::hugging_face {

// The dtypes that weights come in: fp32, fp16, bf16, fp64. Throws std::runtime_error that names folder and
// tensor for any other.
at::ScalarType scalar_type(const safetensors::TensorView& tensor, const std::string& folder);

// As fp32 into `out`: contiguous fp32 in host memory, with as many elements.
void copy_converted(const safetensors::TensorView& tensor, const std::string& folder, at::Tensor& out);

// Whether two tensors, of any two of the dtypes, have the same shape and values.
bool same_values(const safetensors::TensorView& a, const safetensors::TensorView& b, const std::string& folder);

// A tensor that was declared as fp32, whole. Any device, dtype and strides.
void write_as_fp32(safetensors::Writer& writer, const std::string& name, const at::Tensor& value);

void write_text(const std::string& path, const std::string& text);

}  // namespace pipeline::hugging_face
