#include "attention.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <pipeline/torch/random.hpp>

#include "kept.hpp"
#include "kernels/kernels.hpp"
#include "packed_batch.hpp"
#include "parallel.hpp"

namespace pipeline::transformer {
namespace {

struct Head {
  AttentionHead kernel;
  int64_t query_row;  // first row of the sequence's queries
  int64_t key_row;
  int64_t column;  // first channel of the head
  int64_t key_column;
  int64_t pair;  // of the head's first query and key within the bias
};

// The position of row r of a sequence when the layout has none: r.
const int64_t* counting(int64_t longest) {
  thread_local std::vector<int64_t> numbers;
  if (static_cast<int64_t>(numbers.size()) < longest) {
    numbers.resize(static_cast<size_t>(longest));
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  return numbers.data();
}

// base + offset. A tensor without rows has no memory, and then nothing is read from there.
template <class T>
T* at_offset(T* base, int64_t offset) {
  return base ? base + offset : nullptr;
}

// A head and sequence each. Long sequences come first, so that no thread is left with one at the end.
class Heads {
 public:
  Heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
        const AttentionLayout& layout, const Dropout& dropout)
      : layout_(layout), dropout_(dropout), width_(q.size(1) / layout.heads) {
    q_ = q.const_data_ptr<float>(), q_stride_ = q.stride(0);
    k_ = k.const_data_ptr<float>(), v_ = v.const_data_ptr<float>(), kv_stride_ = k.stride(0);
    if (layout.causal)
      positions_ = layout.positions.empty() ? counting(layout.queries.longest()) : layout.positions.data();
    if (bias.numel() > 0) {
      bias_ = bias.const_data_ptr<float>();
      pairs_ = pair_starts(layout);
    }
    order_.resize(static_cast<size_t>(layout.queries.sequences()));
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
      return layout.queries.length(a) * layout.keys.length(a) >
             layout.queries.length(b) * layout.keys.length(b);
    });
  }

  // Those of a sequence are next to each other, and among them those that share keys.
  int64_t count() const { return layout_.queries.sequences() * layout_.heads; }

  int64_t work() const {  // of the forward pass
    int64_t scores = 0;
    for (const int64_t s : order_) scores += layout_.queries.length(s) * layout_.keys.length(s);
    return 4 * scores * width_ * layout_.heads;
  }

  Head operator[](int64_t number) const {
    const int64_t s = order_[static_cast<size_t>(number / layout_.heads)], h = number % layout_.heads;
    Head head{{},         layout_.queries.start(s),       layout_.keys.start(s),
              h * width_, h / layout_.sharing() * width_, 0};
    if (bias_) {
      const int64_t pairs = layout_.queries.length(s) * layout_.keys.length(s);
      head.pair = pairs_[static_cast<size_t>(s)] * layout_.heads + h * pairs;
    }
    head.kernel = {
        .queries = layout_.queries.length(s),
        .keys = layout_.keys.length(s),
        .width = width_,
        .q = at_offset(q_, head.query_row * q_stride_ + head.column),
        .k = at_offset(k_, head.key_row * kv_stride_ + head.key_column),
        .v = at_offset(v_, head.key_row * kv_stride_ + head.key_column),
        .q_stride = q_stride_,
        .kv_stride = kv_stride_,
        .positions = layout_.positions.empty() ? positions_ : at_offset(positions_, head.query_row),
        .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width_))),
        .bias = at_offset(bias_, head.pair),
        .dropout_key = dropout_row_key(dropout_.key, static_cast<uint64_t>(s * layout_.heads + h)),
        .dropout_threshold = dropout_.active() ? dropout_.threshold() : 0,
        .dropout_scale = dropout_.active() ? dropout_.scale() : 1};
    return head;
  }

 private:
  const AttentionLayout& layout_;
  const Dropout& dropout_;
  int64_t width_;
  const float *q_, *k_, *v_;
  int64_t q_stride_, kv_stride_;
  const float* bias_ = nullptr;
  const int64_t* positions_ = nullptr;
  std::vector<int64_t> pairs_, order_;
};

// out: (Nq, C); log_sum: (heads, Nq), which the backward pass needs. bias: see ragged_attention;
// empty: none.
void attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                       const AttentionLayout& layout, const Dropout& dropout, at::Tensor& out,
                       at::Tensor& log_sum) {
  const Heads heads(q, k, v, bias, layout, dropout);
  float* const to = out.mutable_data_ptr<float>();
  float* const sums = log_sum.mutable_data_ptr<float>();
  parallel_tasks(heads.count(), heads.work(), [&](int64_t number) {
    const Head head = heads[number];
    const int64_t h = head.column / head.kernel.width;
    kernels().attention(head.kernel, at_offset(to, head.query_row * out.stride(0) + head.column),
                        out.stride(0), at_offset(sums, h * log_sum.stride(0) + head.query_row));
  });
}

// dq, dk, dv are overwritten; rows may be strided (column slices of one tensor). dbias: as bias, overwritten;
// undefined where not wanted. The heads that share keys are one task and add up one after another.
void attention_backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                        const AttentionLayout& layout, const Dropout& dropout, const at::Tensor& out,
                        const at::Tensor& log_sum, const at::Tensor& dout, at::Tensor& dq, at::Tensor& dk,
                        at::Tensor& dv, at::Tensor& dbias) {
  const Heads heads(q, k, v, bias, layout, dropout);
  const float *const o = out.const_data_ptr<float>(), *const d_o = dout.const_data_ptr<float>();
  const float* const sums = log_sum.const_data_ptr<float>();
  float *const to_q = dq.mutable_data_ptr<float>(), *const to_k = dk.mutable_data_ptr<float>(),
               *const to_v = dv.mutable_data_ptr<float>(),
               *const to_bias = dbias.defined() ? dbias.mutable_data_ptr<float>() : nullptr;
  const int64_t sharing = layout.sharing();
  parallel_tasks(heads.count() / sharing, heads.work(), [&](int64_t task) {
    for (int64_t i = 0; i < sharing; ++i) {
      const Head head = heads[task * sharing + i];
      const int64_t h = head.column / head.kernel.width;
      const int64_t at = head.query_row * out.stride(0) + head.column;
      const int64_t at_key = head.key_row * dk.stride(0) + head.key_column;
      kernels().attention_backward(head.kernel, at_offset(o, at), at_offset(d_o, at), out.stride(0),
                                   at_offset(sums, h * log_sum.stride(0) + head.query_row),
                                   at_offset(to_q, head.query_row * dq.stride(0) + head.column), dq.stride(0),
                                   at_offset(to_k, at_key), at_offset(to_v, at_key), dk.stride(0),
                                   /*add=*/i > 0, at_offset(to_bias, head.pair));
    }
  });
}

// What an attention Function keeps besides tensors.
struct SavedAttention {
  AttentionLayout layout;
  Dropout dropout;
};

// A Function takes no undefined tensors: an empty one stands for no bias.
at::Tensor bias_or_empty(const at::Tensor& bias, const at::Tensor& like) {
  return bias.defined() ? bias : at::empty({0}, like.options());
}

at::Tensor gradient_of(const at::Tensor& bias, bool wanted) {
  return wanted ? at::empty_like(bias) : at::Tensor();
}

// Columns q, k, v of qkv (N, ...) or of its gradient.
struct Parts {
  at::Tensor q, k, v;
};
Parts parts_of(const at::Tensor& qkv, const AttentionLayout& layout) {
  const int64_t heads = layout.heads + 2 * layout.heads_of_keys();
  TORCH_CHECK(qkv.dim() == 2 && qkv.size(1) % heads == 0 && layout.heads % layout.heads_of_keys() == 0,
              "attention: qkv ", qkv.sizes(), " for ", layout.heads, " heads of queries, ",
              layout.heads_of_keys(), " of keys and of values");
  const int64_t width = qkv.size(1) / heads * layout.heads, keys = layout.key_width(width);
  return {qkv.narrow(1, 0, width), qkv.narrow(1, width, keys), qkv.narrow(1, width + keys, keys)};
}

class SelfAttention : public torch::autograd::Function<SelfAttention> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& qkv, const Variable& bias,
                          const AttentionLayout& layout, const Dropout& dropout) {
    const auto [q, k, v] = parts_of(qkv, layout);
    at::Tensor out = at::empty(q.sizes(), qkv.options());
    at::Tensor log_sum = at::empty({layout.heads, q.size(0)}, qkv.options());
    attention_forward(q, k, v, bias, layout, dropout, out, log_sum);
    keep(ctx, SavedAttention{layout, dropout});
    ctx->save_for_backward({qkv, bias, out, log_sum});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto tensors = ctx->get_saved_variables();
    const at::Tensor &qkv = tensors[0], &bias = tensors[1], &out = tensors[2], &log_sum = tensors[3];
    const auto& [layout, dropout] = kept<SavedAttention>(ctx);
    const auto [q, k, v] = parts_of(qkv, layout);
    const at::Tensor dqkv = at::empty_like(qkv);
    auto [dq, dk, dv] = parts_of(dqkv, layout);
    at::Tensor dbias = gradient_of(bias, ctx->needs_input_grad(1));
    attention_backward(q, k, v, bias, layout, dropout, out, log_sum, grads[0].contiguous(), dq, dk, dv,
                       dbias);
    return {dqkv, dbias, Variable(), Variable()};
  }
};

class CrossAttention : public torch::autograd::Function<CrossAttention> {
 public:
  static Variable forward(AutogradContext* ctx, const Variable& q, const Variable& k, const Variable& v,
                          const Variable& bias, const AttentionLayout& layout, const Dropout& dropout) {
    at::Tensor out = at::empty({q.size(0), q.size(1)}, q.options());
    at::Tensor log_sum = at::empty({layout.heads, q.size(0)}, q.options());
    attention_forward(q, k, v, bias, layout, dropout, out, log_sum);
    keep(ctx, SavedAttention{layout, dropout});
    ctx->save_for_backward({q, k, v, bias, out, log_sum});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto tensors = ctx->get_saved_variables();
    const at::Tensor &q = tensors[0], &k = tensors[1], &v = tensors[2], &bias = tensors[3], &out = tensors[4],
                     &log_sum = tensors[5];
    const auto& [layout, dropout] = kept<SavedAttention>(ctx);
    at::Tensor dq = at::empty(q.sizes(), q.options());
    at::Tensor dkv = at::empty({k.size(0), 2 * k.size(1)}, k.options());
    at::Tensor dk = dkv.narrow(1, 0, k.size(1)), dv = dkv.narrow(1, k.size(1), k.size(1));
    at::Tensor dbias = gradient_of(bias, ctx->needs_input_grad(3));
    attention_backward(q, k, v, bias, layout, dropout, out, log_sum, grads[0].contiguous(), dq, dk, dv,
                       dbias);
    return {dq, dk, dv, dbias, Variable(), Variable()};
  }
};

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

// Every head's own keys: dimension 1 of k is heads. Autograd adds up the heads that share one.
at::Tensor for_each_head(const at::Tensor& k, const AttentionLayout& layout) {
  return layout.sharing() == 1 ? k : k.repeat_interleave(layout.sharing(), 1);
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
      at::Tensor weights = at::softmax(scores, -1, q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)
                               .to(q.scalar_type());
      if (dropout.active()) {
        std::vector<at::Tensor> masks;
        for (int64_t h = 0; h < layout.heads; ++h) {
          const Dropout of_head{dropout.p,
                                dropout_row_key(dropout.key, static_cast<uint64_t>(s * layout.heads + h))};
          masks.push_back(dropout_mask(of_head, 0, queries, keys, q.options()));
        }
        weights = weights * at::stack(masks).unsqueeze(0);
      }
      out = at::matmul(weights, vs);
    }
    outs.push_back(out.squeeze(0).transpose(0, 1).reshape({queries, q.size(1)}));
  }
  return outs.empty() ? at::empty_like(q) : at::cat(outs);
}

at::Tensor offsets(const Ragged& ragged, at::Device device) {
  return to_device(ragged.starts, device).to(at::kInt);
}

// Compute capability of a CUDA device, 80 for 8.0. LibTorch's half for the CPU, which alone is linked, does
// not tell; the driver, which it has loaded, does.
int compute_capability(at::Device device) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
  static const auto ask = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<int (*)(int*, int, int)>(driver ? dlsym(driver, "cuDeviceGetAttribute")
                                                            : nullptr);
  }();
  int major = 0, minor = 0;
  const bool known =
      ask != nullptr && ask(&major, kMajor, device.index()) == 0 && ask(&minor, kMinor, device.index()) == 0;
  return known ? 10 * major + minor : 0;
}

// Where there is at most one query to a sequence and heads share keys, flash attention takes these heads for
// queries: then no sequence may be without one, and gradients are not asked of it.
bool flash_shares(const AttentionLayout& layout) {
  return layout.sharing() == 1 || layout.queries.longest() > 1 ||
         (layout.queries.rows() == layout.queries.sequences() && !at::GradMode::is_enabled());
}

// Flash attention over all sequences in one call; where flash_can(). q, k, v: (N, heads, width) at any row
// stride. Its dropout is its own: the mask is a function of the key, but another one than dropout_mask()'s.
struct Flash {
  AttentionLayout layout;
  double dropout;
  at::Tensor of_queries, of_keys;  // (sequences + 1) int32: where each begins
  std::optional<at::Tensor> seen;  // (sequences) int32: how many keys there are; not set: all

  // The result, and what the backward pass needs besides it.
  std::array<at::Tensor, 4> forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const {
    auto [out, log_sum, random, unused, mask] = at::_flash_attention_forward(
        q, k, v, of_queries, of_keys, layout.queries.longest(), layout.keys.longest(), dropout, layout.causal,
        /*return_debug_mask=*/false, /*scale=*/{}, /*window_size_left=*/{}, /*window_size_right=*/{}, seen);
    return {out, log_sum, random, unused};
  }
  std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& dout, const at::Tensor& q,
                                                          const at::Tensor& k, const at::Tensor& v,
                                                          at::ArrayRef<at::Tensor> forward) const {
    return at::_flash_attention_backward(dout, q, k, v, forward[0], forward[1], of_queries, of_keys,
                                         layout.queries.longest(), layout.keys.longest(), dropout,
                                         layout.causal, forward[2], forward[3]);
  }
};

// How many keys the queries of each sequence see, all of them or up to the last query's position; nullopt
// where positions are not consecutive, so that no causal mask that ends with the last query is the layout's.
std::optional<std::vector<int64_t>> keys_seen(const AttentionLayout& layout) {
  std::vector<int64_t> seen;
  for (int64_t s = 0; s < layout.queries.sequences(); ++s) {
    seen.push_back(layout.keys.length(s));
    if (!layout.causal || layout.positions.empty()) continue;
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

Flash make_flash(const AttentionLayout& layout, const Dropout& dropout, at::Device device) {
  const at::Tensor of_queries = offsets(layout.queries, device);
  const bool same = layout.queries.starts == layout.keys.starts;
  // Computed again, this call must drop the same.
  if (dropout.active()) seed_generator(at::globalContext().defaultGenerator(device), dropout.key);
  const std::vector<int64_t> seen = keys_seen(layout).value();
  return {layout, dropout.active() ? dropout.p : 0.0, of_queries,
          same ? of_queries : offsets(layout.keys, device),
          sees_all(layout, seen) ? std::nullopt : std::optional(to_device(seen, device).to(at::kInt))};
}

at::Tensor heads_of(const at::Tensor& x, int64_t heads) { return x.view({x.size(0), heads, -1}); }
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

void check_bias(const at::Tensor& bias, const AttentionLayout& layout) {
  if (!bias.defined()) return;
  const int64_t expected = layout.heads * pair_starts(layout).back();
  TORCH_CHECK(bias.dim() == 1 && bias.numel() == expected && bias.is_contiguous(),
              "attention: bias of shape ", bias.sizes(), ", must be contiguous with ", expected, " values");
}

bool kernel_takes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias) {
  return fast_rows(q) && fast_rows(k) && fast_rows(v) && k.stride(0) == v.stride(0) &&
         (!bias.defined() || bias.scalar_type() == at::kFloat);
}

}  // namespace

bool flash_can(const at::Tensor& q, const AttentionLayout& layout, const at::Tensor& bias, int capability) {
  constexpr int kOldest = 80;
  constexpr int64_t kWidest = 256, kMultiple = 8;  // elements of a head
  const bool half = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  const int64_t width = q.size(1) / layout.heads;
  if (!half || capability < kOldest || width > kWidest || width % kMultiple != 0 || bias.defined() ||
      layout.queries.rows() == 0 || layout.keys.rows() == 0) {
    return false;
  }
  const auto seen = keys_seen(layout);
  return seen && (sees_all(layout, *seen) || !at::GradMode::is_enabled());  // its backward pass takes all
}

AttentionLayout queries_at(const AttentionLayout& whole, const std::vector<int64_t>& rows) {
  AttentionLayout layout = whole;
  layout.queries = {};
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
  if (kernel_takes(q, k, v, bias))
    return CrossAttention::apply(q, k, v, bias_or_empty(bias, q), layout, dropout);
  if (q.is_cuda() && flash_can(q, layout, bias, compute_capability(q.device()))) {
    if (flash_shares(layout)) return FlashAttention::apply(q, k, v, make_flash(layout, dropout, q.device()));
    const auto each = [&](const at::Tensor& of) {
      return joined(for_each_head(heads_of(of, layout.key_heads), layout));
    };
    AttentionLayout own = layout;
    own.key_heads = 0;
    return FlashAttention::apply(q, each(k), each(v), make_flash(own, dropout, q.device()));
  }
  return attention_of_sequences(q, k, v, layout, dropout, bias);
}

at::Tensor ragged_self_attention(const at::Tensor& qkv, const AttentionLayout& layout, const Dropout& dropout,
                                 const at::Tensor& bias) {
  const auto [q, k, v] = parts_of(qkv, layout);
  check_bias(bias, layout);
  if (kernel_takes(q, k, v, bias)) return SelfAttention::apply(qkv, bias_or_empty(bias, q), layout, dropout);
  if (q.is_cuda() && flash_can(q, layout, bias, compute_capability(q.device())) && flash_shares(layout))
    return FlashSelfAttention::apply(qkv, make_flash(layout, dropout, q.device()));
  return ragged_attention(q, k, v, layout, dropout, bias);
}

}  // namespace pipeline::transformer
