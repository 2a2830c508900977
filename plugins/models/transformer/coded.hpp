// Weights of layers in 8 or 4 bits: (out, bytes of a row) in int8 or, where it is NF4, uint8, as
// quantization::Row has them. Other weights are (in, out).
#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "quantization/matrix_form.hpp"

namespace pipeline::transformer {

inline bool is_coded(const at::Tensor& weight) {
  return weight.scalar_type() == at::kByte || weight.scalar_type() == at::kChar;
}
quantization::Form form_of(const at::Tensor& coded);

int64_t inputs(const at::Tensor& weight);
inline int64_t outputs(const at::Tensor& weight) { return weight.size(is_coded(weight) ? 0 : 1); }
// Columns first .. first + count - 1 of what is (in, out): the weights of so many outputs.
at::Tensor outputs_of(const at::Tensor& weight, int64_t first, int64_t count);

// (in, out) in `type`.
at::Tensor decoded(const at::Tensor& coded, at::ScalarType type);

// Of a parameter (in, out) that is several matrices of PyTorch's side by side, each of so many columns: they
// are encoded one by one, as bitsandbytes would. Null where rows of `in` values cannot be kept so.
std::shared_ptr<const Coding> coding_of_parts(int64_t in, std::vector<int64_t> columns);

}  // namespace pipeline::transformer
