// The texts of this folder's .cuh and .cu files, which are compiled when the program runs.
#pragma once

namespace pipeline::transformer::cuda {

extern const char *const kDeviceHeader, *const kCrossEntropy, *const kGelu, *const kLayerNorm;

}  // namespace pipeline::transformer::cuda
