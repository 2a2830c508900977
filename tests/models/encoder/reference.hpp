#pragma once

#include <map>
#include <string>
#include <vector>

#include "tiny_model.hpp"

namespace pipeline::encoder::testing {

using Weights = std::map<std::string, at::Tensor>;

// The model's parameters as leaves in double precision.
Weights exact_weights(const ProteinEncoder& model);

// The loss over a batch, and the logits (T, tokens) of its targets, undefined where there are none.
struct Exact {
  at::Tensor loss, logits;
};

// The model written down once more, in ATen operations on one sequence of ESM-2's tokens at a time, with an
// ESM C's branches divided and its residual stream as it is.
class Reference {
 public:
  Reference(const Architecture& row, const Weights& weights, const Config& config)
      : row_(row), weights_(weights), config_(config) {}

  // What each layer gets, and the last one gives, normalised: (L, C) each.
  std::vector<at::Tensor> states(const std::vector<int64_t>& tokens,
                                 const std::vector<int64_t>& positions) const;
  at::Tensor logits(const std::vector<int64_t>& tokens, const std::vector<int64_t>& positions) const;
  Exact exact(const protein::PackedProteins& batch) const;

 private:
  const at::Tensor& w(const std::string& name) const { return weights_.at(name); }
  at::Tensor bias(const std::string& name) const {
    return weights_.contains(name + ".bias") ? w(name + ".bias") : at::Tensor();
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const;
  at::Tensor norm(const std::string& name, const at::Tensor& x) const;

  const Architecture& row_;
  const Weights& weights_;
  const Config& config_;
};

}  // namespace pipeline::encoder::testing
