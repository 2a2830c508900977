#pragma once

#include <ATen/core/Tensor.h>

namespace pipeline::transformer {

// What a forward pass made on the host (row numbers, masks, tables), on the device. It goes to CUDA through
// pinned memory: from other memory the copy would first wait for all work that the device still has.
at::Tensor to_device(const at::Tensor& host, at::Device device);

// The numbers as int64, (n).
at::Tensor to_device(at::IntArrayRef numbers, at::Device device);

}  // namespace pipeline::transformer
