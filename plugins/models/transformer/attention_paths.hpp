// The ways in which attention is computed; attention.cpp chooses one. What they take and return is described
// in attention.hpp, unless it says otherwise here.
#pragma once

#include <optional>
#include <vector>

#include "attention.hpp"

namespace pipeline::transformer {

// Columns q, k, v of qkv (N, ...) or of its gradient.
struct Parts {
  at::Tensor q, k, v;
};
Parts parts_of(const at::Tensor& qkv, const AttentionLayout& layout);

// (N, heads, width)
inline at::Tensor heads_of(const at::Tensor& x, int64_t heads) { return x.view({x.size(0), heads, -1}); }

// Sequences of like lengths, each padded to the same size.
struct Rectangle {
  std::vector<int64_t> sequences;  // their numbers
  int64_t queries = 0, keys = 0;   // of each
  at::Tensor mask;  // (count, queries, keys): which keys a query sees; undefined: see mask_of()

  int64_t count() const { return static_cast<int64_t>(sequences.size()); }
  int64_t pairs() const { return count() * queries * keys; }
};

// A layout as rectangles, whose rows are laid end to end.
struct PaddedLayout {
  std::vector<Rectangle> rectangles;
  int64_t queries = 0, keys = 0, pairs = 0;  // of all rectangles
  at::Tensor query_places;                   // (query rows) int64: which of these rows each is
  at::Tensor key_rows, key_places;  // the key rows that any query sees, undefined: all; and their places
};

// Where flash attention finds each sequence.
struct FlashOffsets {
  at::Tensor of_queries, of_keys;  // (sequences + 1) int32: where each begins
  std::optional<at::Tensor> seen;  // (sequences) int32: how many keys there are; not set: all
};

// What attention needs of a layout as tensors, made when it is first asked for. One thread at a time.
struct UploadedLayout {
  std::optional<PaddedLayout> padded;
  std::optional<FlashOffsets> offsets;
};

// Our own kernels: float32 on the CPU.
bool kernels_take(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionLayout& layout, const at::Tensor& bias);
at::Tensor attention_by_kernels(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttentionLayout& layout, const Dropout& dropout,
                                const at::Tensor& bias);
at::Tensor self_attention_by_kernels(const at::Tensor& qkv, const AttentionLayout& layout,
                                     const Dropout& dropout, const at::Tensor& bias);

// LibTorch's flash attention: all sequences in one call, where flash_can(). Its dropout is its own: the mask
// is a function of the key, but another one than dropout_mask()'s.
at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionLayout& layout, const Dropout& dropout);
at::Tensor flash_self_attention(const at::Tensor& qkv, const AttentionLayout& layout, const Dropout& dropout);

// cuDNN's, where cudnn_can().
at::Tensor cudnn_self_attention(const at::Tensor& qkv, const AttentionLayout& layout);

// Everything else: any device and dtype, differentiated by autograd.
at::Tensor padded_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionLayout& layout, const Dropout& dropout, const at::Tensor& bias);
at::Tensor padded_self_attention(const at::Tensor& qkv, const AttentionLayout& layout, const Dropout& dropout,
                                 const at::Tensor& bias);

}  // namespace pipeline::transformer
