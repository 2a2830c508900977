// Tensors as the ABI sees them, by the SDK's conversions. Apart from what includes the core, whose errors
// have the same name as the SDK's.
#pragma once

#include <ATen/core/Tensor.h>
#include <pipeline.h>

namespace pipeline::strategies {

pl_tensor view_of(const at::Tensor& tensor);  // borrows memory, shape and strides
at::Tensor tensor_of(const pl_tensor& view);
pl_dtype dtype_of(at::ScalarType type);
pl_device device_of(at::Device device);

}  // namespace pipeline::strategies
