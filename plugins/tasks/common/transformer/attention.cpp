#include "attention.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "attention_paths.hpp"
#include "cuda/program.hpp"
#include "gemm.hpp"
#include "kernels/kernels.hpp"
#include "packed_batch.hpp"

namespace pipeline::transformer {
namespace {

at::Tensor per_head(const at::Tensor& x, int64_t start, int64_t length, int64_t heads) {  // (1, H, length, D)
  return x.narrow(0, start, length).view({length, heads, -1}).transpose(0, 1).unsqueeze(0);
}

// How many keys of sequence s any of its queries sees. The rows behind them may hold anything, as those of a
// cache do, and a mask does not hide it: 0 * NaN is NaN.
int64_t seen_keys(const AttentionLayout& layout, int64_t s) {
  if (!layout.causal || layout.positions.empty()) return layout.keys.length(s);
  const auto positions = layout.positions.begin();
  return 1 + *std::max_element(positions + layout.queries.start(s), positions + layout.queries.start(s + 1));
}

// Which of the first `keys` keys each query of sequence s may see: (queries, keys) of booleans.
at::Tensor visibility(const AttentionLayout& layout, int64_t s, int64_t keys, at::Device device) {
  const int64_t start = layout.queries.start(s), count = layout.queries.length(s);
  const at::TensorOptions numbers = at::TensorOptions(device).dtype(at::kLong);
  const at::Tensor at =
      layout.positions.empty()
          ? at::arange(count, numbers)
          : to_device({layout.positions.data() + start, static_cast<size_t>(count)}, device);
  return at::arange(keys, numbers).unsqueeze(0).le(at.unsqueeze(1));
}

// Any device and dtype, differentiated by autograd, sequence by sequence.
at::Tensor attention_of_sequences(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const AttentionLayout& layout, const Dropout& dropout,
                                  const at::Tensor& bias) {
  const std::vector<int64_t> pairs = bias.defined() ? pair_starts(layout) : std::vector<int64_t>();
  std::vector<at::Tensor> outs;
  for (int64_t s = 0; s < layout.queries.sequences(); ++s) {
    const int64_t queries = layout.queries.length(s);
    if (queries == 0) continue;
    const int64_t keys = seen_keys(layout, s);
    const at::Tensor qs = per_head(q, layout.queries.start(s), queries, layout.heads);
    const auto each = [&](const at::Tensor& of) {
      return for_each_head(per_head(of, layout.keys.start(s), keys, layout.heads_of_keys()), layout);
    };
    const at::Tensor ks = each(k), vs = each(v);
    at::Tensor own_bias;  // (1, heads, queries, keys)
    if (bias.defined()) {
      const int64_t all = layout.keys.length(s);
      own_bias = bias.narrow(0, pairs[static_cast<size_t>(s)] * layout.heads, layout.heads * queries * all)
                     .view({1, layout.heads, queries, all})
                     .narrow(3, 0, keys)
                     .to(q.scalar_type());
    }
    at::Tensor out;
    if (!dropout.active() && !bias.defined()) {
      const bool triangle = layout.causal && layout.positions.empty();
      const std::optional<at::Tensor> mask =
          layout.causal && !triangle ? std::optional(visibility(layout, s, keys, q.device())) : std::nullopt;
      out = at::scaled_dot_product_attention(qs, ks, vs, mask, 0.0, triangle);
    } else {
      at::Tensor scores = at::matmul(qs, ks.transpose(-1, -2)) / std::sqrt(static_cast<double>(qs.size(-1)));
      if (bias.defined()) scores = scores + own_bias;
      if (layout.causal) {
        scores = scores.masked_fill(visibility(layout, s, keys, q.device()).logical_not(), -INFINITY);
      }
      at::Tensor weights = at::softmax(scores, -1, wide(q.scalar_type()));
      if (dropout.active() && draws_on_device(q)) {
        weights =
            dropped_on_device(weights, {dropout.p, dropout_row_key(dropout.key, static_cast<uint64_t>(s))});
      } else if (dropout.active()) {
        std::vector<at::Tensor> masks;
        for (int64_t h = 0; h < layout.heads; ++h) {
          const Dropout of_head{dropout.p,
                                dropout_row_key(dropout.key, static_cast<uint64_t>(s * layout.heads + h))};
          masks.push_back(dropout_mask(of_head, 0, queries, keys, weights.options()));
        }
        weights = weights * at::stack(masks).unsqueeze(0);
      }
      out = at::matmul(weights.to(q.scalar_type()), vs);
    }
    outs.push_back(out.squeeze(0).transpose(0, 1).reshape({queries, q.size(1)}));
  }
  return outs.empty() ? at::empty_like(q) : at::cat(outs);
}

void check_bias(const at::Tensor& bias, const AttentionLayout& layout) {
  if (!bias.defined()) return;
  const int64_t expected = layout.heads * pair_starts(layout).back();
  TORCH_CHECK(bias.dim() == 1 && bias.numel() == expected && bias.is_contiguous(),
              "attention: bias of shape ", bias.sizes(), ", must be contiguous with ", expected, " values");
}

}  // namespace

Parts parts_of(const at::Tensor& qkv, const AttentionLayout& layout) {
  const int64_t heads = layout.heads + 2 * layout.heads_of_keys();
  TORCH_CHECK(qkv.dim() == 2 && qkv.size(1) % heads == 0 && layout.heads % layout.heads_of_keys() == 0,
              "attention: qkv ", qkv.sizes(), " for ", layout.heads, " heads of queries, ",
              layout.heads_of_keys(), " of keys and of values");
  const int64_t width = qkv.size(1) / heads * layout.heads, keys = layout.key_width(width);
  return {qkv.narrow(1, 0, width), qkv.narrow(1, width, keys), qkv.narrow(1, width + keys, keys)};
}

// Every head's own keys: dimension 1 of k is heads. Autograd adds up the heads that share one.
at::Tensor for_each_head(const at::Tensor& k, const AttentionLayout& layout) {
  return layout.sharing() == 1 ? k : k.repeat_interleave(layout.sharing(), 1);
}

AttentionLayout queries_at(const AttentionLayout& whole, const std::vector<int64_t>& rows) {
  AttentionLayout layout = whole;
  layout.queries = {};
  layout.uploaded = nullptr;
  size_t next = 0;
  for (int64_t s = 0; s < whole.keys.sequences(); ++s) {
    const size_t first = next;
    for (; next < rows.size() && rows[next] < whole.keys.start(s + 1); ++next)
      layout.positions.push_back(rows[next] - whole.keys.start(s));
    layout.queries.append(static_cast<int64_t>(next - first));
  }
  return layout;
}

std::vector<int64_t> pair_starts(const AttentionLayout& layout) {
  std::vector<int64_t> starts{0};
  for (int64_t s = 0; s < layout.queries.sequences(); ++s)
    starts.push_back(starts.back() + layout.queries.length(s) * layout.keys.length(s));
  return starts;
}

at::Tensor ragged_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const AttentionLayout& layout, const Dropout& dropout, const at::Tensor& bias) {
  TORCH_CHECK(layout.queries.rows() == q.size(0) && layout.keys.rows() == k.size(0) &&
                  q.size(1) % layout.heads == 0 && layout.heads % layout.heads_of_keys() == 0 &&
                  k.size(1) == layout.key_width(q.size(1)) && v.sizes() == k.sizes(),
              "attention: q ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(), " for ",
              layout.queries.rows(), " query rows, ", layout.keys.rows(), " key rows, ", layout.heads,
              " heads, ", layout.heads_of_keys(), " of keys");
  check_bias(bias, layout);
  if (kernels_take(q, k, v, bias)) return attention_by_kernels(q, k, v, layout, dropout, bias);
  if (q.is_cuda() && flash_can(q, layout, bias, cuda::compute_capability(q.device())))
    return flash_attention(q, k, v, layout, dropout);
  return attention_of_sequences(q, k, v, layout, dropout, bias);
}

at::Tensor ragged_self_attention(const at::Tensor& qkv, const AttentionLayout& layout, const Dropout& dropout,
                                 const at::Tensor& bias) {
  const auto [q, k, v] = parts_of(qkv, layout);
  check_bias(bias, layout);
  if (kernels_take(q, k, v, bias)) return self_attention_by_kernels(qkv, layout, dropout, bias);
  if (q.is_cuda()) {
    const int capability = cuda::compute_capability(q.device());
    if (cudnn_can(q, layout, dropout, bias, capability)) return cudnn_self_attention(qkv, layout);
    if (flash_can(q, layout, bias, capability)) return flash_self_attention(qkv, layout, dropout);
  }
  return ragged_attention(q, k, v, layout, dropout, bias);
}

}  // namespace pipeline::transformer
