// Attention on a CUDA device, by what LibTorch has there.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <optional>

#include <pipeline/torch/random.hpp>

#include "attention_paths.hpp"
#include "kept.hpp"

namespace pipeline::transformer {

namespace {

// How many keys the queries of each sequence see, all of them or up to the last query's position; nullopt
// where positions are not consecutive, so that no causal mask that ends with the last query is the layout's.
std::optional<std::vector<int64_t>> keys_seen(const AttentionLayout& layout) {
  std::vector<int64_t> seen;
  for (int64_t s = 0; s < layout.queries.sequences(); ++s) {
    seen.push_back(layout.keys.length(s));
    if ((!layout.causal && layout.window_in_force() == 0) || layout.positions.empty()) continue;
    const auto first = layout.positions.begin() + layout.queries.start(s),
               end = layout.positions.begin() + layout.queries.start(s + 1);
    if (first == end) continue;
    if (std::adjacent_find(first, end, [](int64_t a, int64_t b) { return b != a + 1; }) != end) return {};
    seen.back() = *(end - 1) + 1;
  }
  return seen;
}

bool sees_all(const AttentionLayout& layout, const std::vector<int64_t>& seen) {
  for (int64_t s = 0; s < layout.keys.sequences(); ++s) {
    if (seen[static_cast<size_t>(s)] != layout.keys.length(s)) return false;
  }
  return true;
}

const FlashOffsets& flash_offsets(const AttentionLayout& layout, at::Device device) {
  std::optional<FlashOffsets>& made = layout.uploaded->offsets;
  if (made) return *made;
  const auto there = [&](const std::vector<int64_t>& numbers) {
    return to_device(numbers, device).to(at::kInt);
  };
  made.emplace().of_queries = there(layout.queries.starts);
  made->of_keys = layout.queries.starts == layout.keys.starts ? made->of_queries : there(layout.keys.starts);
  const auto seen = keys_seen(layout);
  if (seen && !sees_all(layout, *seen)) made->seen = there(*seen);
  return *made;
}

// Where there is at most one query to a sequence and heads share keys, flash attention takes these heads for
// queries: then no sequence may be without one, and gradients are not asked of it.
bool flash_shares(const AttentionLayout& layout) {
  return layout.sharing() == 1 || layout.queries.longest() > 1 ||
         (layout.queries.rows() == layout.queries.sequences() && layout.decoding);
}

// q, k, v: (N, heads, width) at any row stride.
struct Flash {
  AttentionLayout layout;
  double dropout;
  std::optional<double> scale;
  std::optional<int64_t> before, after;  // keys that a query sees in its window, besides its own

  Flash(const AttentionLayout& of, const Dropout& drop, at::Device device)
      : layout(shared_by_layers(of)), dropout(drop.active() ? drop.p : 0.0) {
    if (layout.scale != 0) scale = layout.scale;
    if (const int64_t window = layout.window_in_force(); window > 0)
      before = window - 1, after = layout.ahead();
    // Computed again, this call must drop the same.
    if (drop.active()) seed_generator(at::globalContext().defaultGenerator(device), drop.key);
  }

  // The result, and what the backward pass needs besides it.
  std::array<at::Tensor, 4> forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const {
    const FlashOffsets& there = flash_offsets(layout, q.device());
    auto [out, log_sum, random, unused, mask] =
        at::_flash_attention_forward(q, k, v, there.of_queries, there.of_keys, layout.queries.longest(),
                                     layout.keys.longest(), dropout, layout.causal,
                                     /*return_debug_mask=*/false, scale, before, after, there.seen);
    return {out, log_sum, random, unused};
  }
  std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& dout, const at::Tensor& q,
                                                          const at::Tensor& k, const at::Tensor& v,
                                                          at::ArrayRef<at::Tensor> forward) const {
    const FlashOffsets& there = flash_offsets(layout, q.device());
    return at::_flash_attention_backward(
        dout, q, k, v, forward[0], forward[1], there.of_queries, there.of_keys, layout.queries.longest(),
        layout.keys.longest(), dropout, layout.causal, forward[2], forward[3], scale, before, after);
  }
};

// (N, heads, width) each.
Parts parts_of_heads(const at::Tensor& qkv, const AttentionLayout& layout) {
  const int64_t heads = layout.heads, keys = layout.heads_of_keys();
  const at::Tensor all = heads_of(qkv, heads + 2 * keys);
  return {all.narrow(1, 0, heads), all.narrow(1, heads, keys), all.narrow(1, heads + keys, keys)};
}
at::Tensor joined(const at::Tensor& x) { return x.reshape({x.size(0), -1}); }

// Autograd would make the gradient of qkv out of three tensors of its size, zero but for a third.
class FlashSelfAttention : public torch::autograd::Function<FlashSelfAttention> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& qkv, const Flash& flash) {
    const auto [q, k, v] = parts_of_heads(qkv, flash.layout);
    const auto made = flash.forward(q, k, v);
    keep(ctx, flash);
    ctx->save_for_backward({qkv, made[0], made[1], made[2], made[3]});
    return joined(made[0]);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const auto& flash = kept<Flash>(ctx);
    const auto [q, k, v] = parts_of_heads(t[0], flash.layout);
    const auto [dq, dk, dv] = flash.backward(heads_of(grads[0].contiguous(), flash.layout.heads), q, k, v,
                                             at::ArrayRef(t).slice(1));
    return {at::cat({joined(dq), joined(dk), joined(dv)}, 1), Variable()};
  }
};

class FlashAttention : public torch::autograd::Function<FlashAttention> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& q, const Variable& k, const Variable& v,
                          const Flash& flash) {
    const int64_t heads = flash.layout.heads, keys = flash.layout.heads_of_keys();
    const auto made = flash.forward(heads_of(q, heads), heads_of(k, keys), heads_of(v, keys));
    keep(ctx, flash);
    ctx->save_for_backward({q, k, v, made[0], made[1], made[2], made[3]});
    return joined(made[0]);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const auto& flash = kept<Flash>(ctx);
    const int64_t heads = flash.layout.heads, keys = flash.layout.heads_of_keys();
    const auto [dq, dk, dv] =
        flash.backward(heads_of(grads[0].contiguous(), heads), heads_of(t[0], heads), heads_of(t[1], keys),
                       heads_of(t[2], keys), at::ArrayRef(t).slice(3));
    return {joined(dq), joined(dk), joined(dv), Variable()};
  }
};

// (sequences, heads, tokens, width) each, views of qkv (N, ...): equal lengths need no offsets.
Parts parts_of_sequences(const at::Tensor& qkv, const AttentionLayout& layout) {
  const int64_t sequences = layout.queries.sequences(), heads = layout.heads, keys = layout.heads_of_keys();
  const at::Tensor all =
      qkv.view({sequences, layout.queries.length(0), heads + 2 * keys, -1}).transpose(1, 2);
  return {all.narrow(1, 0, heads), all.narrow(1, heads, keys), all.narrow(1, heads + keys, keys)};
}
// The result back in rows: (N, heads * width).
at::Tensor rows_of_sequences(const at::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0) * x.size(2), -1});
}

class CudnnSelfAttention : public torch::autograd::Function<CudnnSelfAttention> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& qkv, const AttentionLayout& layout) {
    const auto [q, k, v] = parts_of_sequences(qkv, layout);
    const auto made = at::_scaled_dot_product_cudnn_attention(q, k, v, /*attn_bias=*/{},
                                                              /*compute_log_sumexp=*/true, /*dropout_p=*/0.0,
                                                              layout.causal);
    const at::Tensor& out = std::get<0>(made);
    keep(ctx, layout);
    ctx->save_for_backward({qkv, out, std::get<1>(made), std::get<6>(made), std::get<7>(made)});
    return rows_of_sequences(out);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto t = ctx->get_saved_variables();
    const auto& layout = kept<AttentionLayout>(ctx);
    const auto [q, k, v] = parts_of_sequences(t[0], layout);
    const int64_t tokens = layout.queries.length(0);
    const at::Tensor dout =
        grads[0].contiguous().view({layout.queries.sequences(), tokens, layout.heads, -1}).transpose(1, 2);
    const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
        dout, q, k, v, t[1], t[2], /*philox_seed=*/t[3], /*philox_offset=*/t[4], /*attn_bias=*/{},
        /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, tokens, tokens, /*dropout_p=*/0.0, layout.causal);
    return {at::cat({rows_of_sequences(dq), rows_of_sequences(dk), rows_of_sequences(dv)}, 1), Variable()};
  }
};

bool is_half(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

constexpr int kOldestDevice = 80;
constexpr int64_t kMultipleOfWidth = 8;

}  // namespace

bool flash_can(const at::Tensor& q, const AttentionLayout& layout, const at::Tensor& bias, int capability) {
  constexpr int64_t kWidest = 256;  // elements of a head
  const int64_t width = q.size(1) / layout.heads;
  if (!is_half(q) || capability < kOldestDevice || width > kWidest || width % kMultipleOfWidth != 0 ||
      bias.defined() || layout.softcap != 0 || layout.queries.rows() == 0 || layout.keys.rows() == 0) {
    return false;
  }
  const auto seen = keys_seen(layout);
  return seen && (sees_all(layout, *seen) || layout.decoding);  // its backward pass takes all keys
}

bool cudnn_can(const at::Tensor& q, const AttentionLayout& layout, const Dropout& dropout,
               const at::Tensor& bias, int capability) {
  constexpr int64_t kWidest = 128, kFewest = 64;  // elements of a head; tokens
  const int64_t width = q.size(1) / layout.heads, tokens = layout.full_length;
  const Ragged& rows = layout.queries;
  if (!is_half(q) || capability < kOldestDevice || width > kWidest || width % kMultipleOfWidth != 0 ||
      bias.defined() || dropout.active() || at::globalContext().deterministicAlgorithms() ||
      layout.window_in_force() != 0 || layout.scale != 0 || layout.softcap != 0 ||
      !layout.positions.empty() || tokens < kFewest || rows.sequences() == 0 ||
      rows.starts != layout.keys.starts) {
    return false;
  }
  for (int64_t s = 0; s < rows.sequences(); ++s) {
    if (rows.length(s) != tokens) return false;
  }
  return true;
}

at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionLayout& layout, const Dropout& dropout) {
  if (flash_shares(layout)) return FlashAttention::apply(q, k, v, Flash(layout, dropout, q.device()));
  const auto each = [&](const at::Tensor& of) {
    return joined(heads_of(of, layout.key_heads).repeat_interleave(layout.sharing(), 1));
  };
  AttentionLayout own = layout;
  own.key_heads = 0;
  return FlashAttention::apply(q, each(k), each(v), Flash(own, dropout, q.device()));
}

at::Tensor flash_self_attention(const at::Tensor& qkv, const AttentionLayout& layout,
                                const Dropout& dropout) {
  if (flash_shares(layout)) return FlashSelfAttention::apply(qkv, Flash(layout, dropout, qkv.device()));
  const auto [q, k, v] = parts_of(qkv, layout);
  return flash_attention(q, k, v, layout, dropout);
}

at::Tensor cudnn_self_attention(const at::Tensor& qkv, const AttentionLayout& layout) {
  return CudnnSelfAttention::apply(qkv, layout);
}

}  // namespace pipeline::transformer
