#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <memory>
#include <vector>

#include "dropout.hpp"
#include "packed_batch.hpp"

namespace pipeline::transformer {

struct UploadedLayout;

// Who attends to what. Query rows and key rows are both laid end to end, sequence by sequence, and need not
// be as many: queries may be a subset of the rows (the last layer needs only those with a target), or the
// newest rows of a cache.
struct AttentionLayout {
  Ragged queries;
  Ragged keys;
  int64_t heads = 1;
  // Heads of keys and values; heads / key_heads queries' heads, one after another, share one (grouped-query
  // attention: Ainslie et al., arXiv:2305.13245). 0: as many as heads.
  int64_t key_heads = 0;
  bool causal = true;
  // A query sees so many keys, up to its own position, and, unless causal, as many from there on; 0: all
  // (sliding-window attention: Beltagy et al., arXiv:2004.05150).
  int64_t window = 0;
  double scale = 0;    // of the products of queries and keys; 0: 1/sqrt(head width)
  double softcap = 0;  // scores s become softcap * tanh(s / softcap); 0: they stay
  // (query rows) position of each query within its sequence's keys; causal: it sees keys 0 .. position.
  // Empty: row r of a sequence is at position r (then queries and keys have the same lengths).
  std::vector<int64_t> positions = {};
  // Keys are a cache's: each sequence's queries may see a part of its keys, and no gradient is asked for.
  bool decoding = false;
  // The most tokens that a sequence can have, 0: not known. Where all of a batch have it, as with long texts
  // in every batch, a kernel that is made for so many sequences of this length pays.
  int64_t full_length = 0;
  std::shared_ptr<UploadedLayout> uploaded = nullptr;  // by shared_by_layers()

  // The window, where any sequence is longer than it; else 0.
  int64_t window_in_force() const { return window > 0 && window < keys.longest() ? window : 0; }
  // How many keys behind its own position a query sees, where it does not see all.
  int64_t ahead() const { return causal ? 0 : window - 1; }
  int64_t heads_of_keys() const { return key_heads == 0 ? heads : key_heads; }
  double scale_of(int64_t head_width) const {
    return scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(head_width));
  }
  int64_t sharing() const { return heads / heads_of_keys(); }  // queries' heads to one of keys
  // Columns of keys, and of values, where queries have so many.
  int64_t key_width(int64_t query_width) const { return query_width / heads * heads_of_keys(); }
};

// The layout with queries at these rows of `whole` alone (ascending), keys as they are.
AttentionLayout queries_at(const AttentionLayout& whole, const std::vector<int64_t>& rows);

// A layout whose copies share what attention needs of it on the device where it is used: it is made and
// uploaded once. Who changes a copy's queries, keys, positions, causal or decoding has to reset `uploaded`.
AttentionLayout shared_by_layers(AttentionLayout layout);

// q: (Nq, C), k and v: (Nk, C) or key_heads' share of that, all with rows at any stride, C = heads * head
// width
// -> (Nq, C), fp32 or the dtype of q. Differentiable.
// `bias`: (pairs * heads), undefined for none: for each sequence, one after another, (heads, queries, keys);
// or one of biases_of_pairs(). Added to the scaled scores. Differentiable.
at::Tensor ragged_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionLayout& layout, const Dropout& dropout = {},
                            const at::Tensor& bias = {});

// Self-attention over qkv (N, 3C), or as wide as key_heads make it, whose columns are q, k, v. The gradient
// is one such tensor, written in place by the heads.
at::Tensor ragged_self_attention(const at::Tensor& qkv, const AttentionLayout& layout,
                                 const Dropout& dropout = {}, const at::Tensor& bias = {});

// Whether LibTorch's flash attention takes this on a CUDA device of this compute capability (80: 8.0); it
// refuses what it does not take. Of chosen queries it takes consecutive ones, and but for decoding only the
// last ones of each sequence.
bool flash_can(const at::Tensor& q, const AttentionLayout& layout, const at::Tensor& bias, int capability);
// Whether cuDNN's attention takes it. It is faster, but takes a second to make a plan for each new shape, is
// not deterministic, and drops nothing here.
bool cudnn_can(const at::Tensor& q, const AttentionLayout& layout, const Dropout& dropout,
               const at::Tensor& bias, int capability);

// (sequences + 1) how many pairs of a query and a key the sequences before have together.
std::vector<int64_t> pair_starts(const AttentionLayout& layout);

// All pairs on a device: sequence by sequence, query by query. (pairs) int64 each.
struct PairIndex {
  at::Tensor query, key;  // their rows
  at::Tensor place;       // in a bias
};
PairIndex pairs_of(const AttentionLayout& layout, at::Device device);

// (pairs, n * heads) -> n biases for attention of this very layout, on this device. Differentiable. The
// layout is by shared_by_layers(), here and for pairs_of().
std::vector<at::Tensor> biases_of_pairs(const at::Tensor& of_pairs, const PairIndex& pairs,
                                        const AttentionLayout& layout);

}  // namespace pipeline::transformer
