#pragma once

#include <pipeline/optimizer.hpp>

namespace pipeline::strategies {

extern const char* const kAdamWKernel;  // the text of adamw.cu

struct AdamWFactors {
  double beta1, beta2, epsilon;
};

// AdamW by our own kernel, where all runs are on a CUDA device and whole vectors: one pass, which also scales
// the gradients and writes narrow_weights(). False: not done.
bool adamw_on_device(const Update& u, const AdamWFactors& factors);

}  // namespace pipeline::strategies
