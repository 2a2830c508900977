#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace pipeline::transformer {

// What a forward pass made on the host (row numbers, masks, tables), on the device. It goes to CUDA through
// pinned memory: from other memory the copy would first wait for all work that the device still has.
at::Tensor to_device(const at::Tensor& host, at::Device device);

// The numbers as int64, (n).
at::Tensor to_device(at::IntArrayRef numbers, at::Device device);

// A batch of sequences laid end to end without padding: sequence s is rows starts[s] .. starts[s + 1] - 1.
struct Ragged {
  std::vector<int64_t> starts{0};

  int64_t sequences() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t rows() const { return starts.back(); }
  int64_t start(int64_t s) const { return starts[static_cast<size_t>(s)]; }
  int64_t length(int64_t s) const { return start(s + 1) - start(s); }
  int64_t longest() const {
    int64_t most = 0;
    for (int64_t s = 0; s < sequences(); ++s) most = std::max(most, length(s));
    return most;
  }
  void append(int64_t length) { starts.push_back(starts.back() + length); }
};

// A micro-batch: N rows in all, sequences end to end without padding. What the host needs to know of it stays
// in host memory, so that nobody waits for a device.
struct PackedBatch {
  Ragged sequences;
  int64_t full_length = 0;           // see AttentionLayout
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

// Packs sequences of tokens and, for each token, the one to predict there; -1: none.
PackedBatch pack(const std::vector<std::vector<int64_t>>& tokens,
                 const std::vector<std::vector<int64_t>>& targets);

}  // namespace pipeline::transformer
