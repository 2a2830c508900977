#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "attention_paths.hpp"
#include "fast_path.hpp"
#include "kept.hpp"
#include "kernels/kernels.hpp"
#include "packed_batch.hpp"
#include "plugins/gpu/program.hpp"
#include "plugins/parallel/parallel.hpp"

namespace pipeline::transformer {
namespace {

void check_rows(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const AttentionLayout& layout) {
  TORCH_CHECK(layout.queries.rows() == q.size(0) && layout.keys.rows() == k.size(0) &&
                  q.size(1) % layout.heads == 0 && layout.heads % layout.heads_of_keys() == 0 &&
                  k.size(1) == layout.key_width(q.size(1)) && v.sizes() == k.sizes(),
              "attention: q ", q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(), " for ",
              layout.queries.rows(), " query rows, ", layout.keys.rows(), " key rows, ", layout.heads,
              " heads, ", layout.heads_of_keys(), " of keys");
}

void check_bias(const at::Tensor& bias, const AttentionLayout& layout) {
  if (!bias.defined() || bias.dim() == 2) return;  // the latter is from biases_of_pairs()
  const int64_t expected = layout.heads * pair_starts(layout).back();
  TORCH_CHECK(bias.dim() == 1 && bias.numel() == expected && bias.is_contiguous(),
              "attention: bias of shape ", bias.sizes(), ", must be contiguous with ", expected, " values");
}

struct Head {
  AttentionHead kernel;
  int64_t query_row;  // first row of the sequence's queries
  int64_t key_row;
  int64_t column;  // first channel of the head
  int64_t key_column;
  int64_t pair;  // place of the head's first query and key in the bias
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
    if (layout.causal || layout.window_in_force() > 0)
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

  // Heads of a sequence are next to each other, and among them those that share keys.
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
        .ahead = layout_.ahead(),
        .window = layout_.window_in_force(),
        .scale = static_cast<float>(layout_.scale_of(width_)),
        .softcap = static_cast<float>(layout_.softcap),
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
  parallel::tasks(heads.count(), heads.work(), [&](int64_t number) {
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
  parallel::tasks(heads.count() / sharing, heads.work(), [&](int64_t task) {
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

}  // namespace

Parts parts_of(const at::Tensor& qkv, const AttentionLayout& layout) {
  const int64_t heads = layout.heads + 2 * layout.heads_of_keys();
  TORCH_CHECK(qkv.dim() == 2 && qkv.size(1) % heads == 0 && layout.heads % layout.heads_of_keys() == 0,
              "attention: qkv ", qkv.sizes(), " for ", layout.heads, " heads of queries, ",
              layout.heads_of_keys(), " of keys and of values");
  const int64_t width = qkv.size(1) / heads * layout.heads, keys = layout.key_width(width);
  return {qkv.narrow(1, 0, width), qkv.narrow(1, width, keys), qkv.narrow(1, width + keys, keys)};
}

AttentionLayout shared_by_layers(AttentionLayout layout) {
  if (!layout.uploaded) layout.uploaded = std::make_shared<UploadedLayout>();
  return layout;
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
  check_rows(q, k, v, layout);
  check_bias(bias, layout);
  if (kernels_take(q, k, v, layout, bias)) return attention_by_kernels(q, k, v, layout, dropout, bias);
  if (q.is_cuda() && flash_can(q, layout, bias, gpu::compute_capability(q.device())))
    return flash_attention(q, k, v, layout, dropout);
  return padded_attention(q, k, v, layout, dropout, bias);
}

at::Tensor ragged_self_attention(const at::Tensor& qkv, const AttentionLayout& layout, const Dropout& dropout,
                                 const at::Tensor& bias) {
  const auto [q, k, v] = parts_of(qkv, layout);
  check_rows(q, k, v, layout);
  check_bias(bias, layout);
  if (kernels_take(q, k, v, layout, bias)) return self_attention_by_kernels(qkv, layout, dropout, bias);
  if (q.is_cuda()) {
    const int capability = gpu::compute_capability(q.device());
    if (cudnn_can(q, layout, dropout, bias, capability)) return cudnn_self_attention(qkv, layout);
    if (flash_can(q, layout, bias, capability)) return flash_self_attention(qkv, layout, dropout);
  }
  return padded_self_attention(qkv, layout, dropout, bias);
}

bool kernels_take(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                  const AttentionLayout& layout, const at::Tensor& bias) {
  return fast_rows(q) && fast_rows(k) && fast_rows(v) && k.stride(0) == v.stride(0) &&
         (!bias.defined() || (bias.dim() == 1 && bias.scalar_type() == at::kFloat && layout.softcap == 0));
}

at::Tensor attention_by_kernels(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const AttentionLayout& layout, const Dropout& dropout,
                                const at::Tensor& bias) {
  return CrossAttention::apply(q, k, v, bias_or_empty(bias, q), layout, dropout);
}

at::Tensor self_attention_by_kernels(const at::Tensor& qkv, const AttentionLayout& layout,
                                     const Dropout& dropout, const at::Tensor& bias) {
  return SelfAttention::apply(qkv, bias_or_empty(bias, qkv), layout, dropout);
}

}  // namespace pipeline::transformer
