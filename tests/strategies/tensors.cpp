#include "tests/strategies/tensors.hpp"

#include <ATen/ATen.h>
#include <pipeline/torch/tensor.hpp>

namespace pipeline::strategies {

pl_tensor view_of(const at::Tensor& tensor) { return to_pl(tensor); }
at::Tensor tensor_of(const pl_tensor& view) { return to_torch(view); }
pl_dtype dtype_of(at::ScalarType type) { return to_pl(type); }
pl_device device_of(at::Device device) { return to_pl(device); }

}  // namespace pipeline::strategies
