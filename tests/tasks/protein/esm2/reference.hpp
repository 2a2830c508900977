#pragma once

#include <map>
#include <string>

#include "tiny_model.hpp"

namespace pipeline::protein::testing {

using Weights = std::map<std::string, at::Tensor>;

// The model's parameters as leaves in double precision.
Weights exact_weights(const Esm2& model);

// ESM-2 written down once more, in ATen operations on one sequence at a time: the loss over the batch, and
// the logits (T, 33) of its targets.
struct Exact {
  at::Tensor loss, logits;
};
Exact exact_esm2(const Weights& weights, const Esm2Config& config, const PackedProteins& batch);

}  // namespace pipeline::protein::testing
