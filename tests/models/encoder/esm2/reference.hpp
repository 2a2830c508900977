#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tiny_model.hpp"

namespace pipeline::encoder::testing {

using Weights = std::map<std::string, at::Tensor>;

// The model's parameters as leaves in double precision.
Weights exact_weights(const Esm2& model);

// The loss over a batch, and the logits (T, tokens) of its targets, undefined where there are none.
struct Exact {
  at::Tensor loss, logits;
};
// Of a model that is written down once more, in ATen operations on one sequence of tokens at a time.
using LogitsOfSequence =
    std::function<at::Tensor(const std::vector<int64_t>& tokens, const std::vector<int64_t>& positions)>;
Exact exact_of(const protein::PackedProteins& batch, const LogitsOfSequence& logits_of);
// Of `count` heads with rotary positions: (L, C) each.
at::Tensor exact_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t count,
                           const std::vector<int64_t>& positions);

Exact exact_esm2(const Weights& weights, const Esm2Config& config, const protein::PackedProteins& batch);

}  // namespace pipeline::encoder::testing
