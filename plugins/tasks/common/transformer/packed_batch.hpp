#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ragged.hpp"

namespace pipeline::transformer {

// A micro-batch: N rows in all, sequences end to end without padding. What the host needs to know of it stays
// in host memory, so that nobody waits for a device.
struct PackedBatch {
  Ragged sequences;
  at::Tensor tokens;                 // (N) int64
  at::Tensor positions;              // (N) int64 within each sequence
  at::Tensor targets;                // (T) int64: the tokens to predict
  std::vector<int64_t> target_rows;  // (T) at these rows, ascending

  template <class V>
  void tensors(V&& visit) {
    visit(tokens);
    visit(positions);
    visit(targets);
  }

  // Throws unless the sizes fit together; `model` begins the message.
  void check(const char* model) const;
};

// From sequences of tokens and, for each token, the one to predict there; -1: none.
PackedBatch pack(const std::vector<std::vector<int64_t>>& tokens,
                 const std::vector<std::vector<int64_t>>& targets);

}  // namespace pipeline::transformer
