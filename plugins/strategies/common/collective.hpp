#pragma once

#include <ATen/core/Tensor.h>

#include <pipeline/communicator.hpp>
#include <pipeline/torch/runtime.hpp>

namespace pipeline::strategies {

// A contiguous tensor, filled on this thread's stream, as collectives take it; its memory must live until the
// work is waited for.
inline pl_buffer to_buffer(const at::Tensor& tensor) {
  return buffer(tensor.data_ptr(), static_cast<uint64_t>(tensor.numel()), to_pl(tensor.scalar_type()),
                to_pl(tensor.device()), current_stream(tensor.device()));
}

}  // namespace pipeline::strategies
