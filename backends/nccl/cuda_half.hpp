// Loads what needs a CUDA device, where there is one.
#pragma once

#include "backends/nccl/group.hpp"

namespace pipeline::backends::nccl {

// The function of the library beside the plugin. Throws PL_ERROR_UNSUPPORTED, and says what is missing, where
// there is no NVIDIA driver, none that is new enough, no such device, or no CUDA half of LibTorch.
OpenGroup load_cuda_half(const pl_run_info& run);

}  // namespace pipeline::backends::nccl
