#include "attention_kernel.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

#include "kernels/kernels.hpp"
#include "parallel.hpp"

namespace pipeline::transformer {
namespace {

bool takes(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.stride(1) == 1;
}

struct Head {
  AttentionHead kernel;
  int64_t query_row;  // first row of the sequence's queries
  int64_t key_row;
  int64_t column;  // first channel of the head
  int64_t pair;    // of the head's first query and key within the bias
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

// One task per head and sequence. Long sequences come first, so that no thread is left with one at the end.
class Tasks {
 public:
  Tasks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
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

  int64_t count() const { return layout_.queries.sequences() * layout_.heads; }

  int64_t work() const {  // of the forward pass
    int64_t scores = 0;
    for (const int64_t s : order_) scores += layout_.queries.length(s) * layout_.keys.length(s);
    return 4 * scores * width_ * layout_.heads;
  }

  Head operator[](int64_t task) const {
    const int64_t s = order_[static_cast<size_t>(task / layout_.heads)], h = task % layout_.heads;
    Head head{{}, layout_.queries.start(s), layout_.keys.start(s), h * width_, 0};
    if (bias_) {
      const int64_t pairs = layout_.queries.length(s) * layout_.keys.length(s);
      head.pair = pairs_[static_cast<size_t>(s)] * layout_.heads + h * pairs;
    }
    head.kernel = {
        .queries = layout_.queries.length(s),
        .keys = layout_.keys.length(s),
        .width = width_,
        .q = q_ + head.query_row * q_stride_ + head.column,
        .k = k_ + head.key_row * kv_stride_ + head.column,
        .v = v_ + head.key_row * kv_stride_ + head.column,
        .q_stride = q_stride_,
        .kv_stride = kv_stride_,
        .positions = layout_.positions.empty() || !positions_ ? positions_ : positions_ + head.query_row,
        .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width_))),
        .bias = bias_ ? bias_ + head.pair : nullptr,
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

}  // namespace

bool attention_kernel_takes(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return takes(q) && takes(k) && takes(v) && k.stride(0) == v.stride(0);
}

void attention_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                       const AttentionLayout& layout, const Dropout& dropout, at::Tensor& out,
                       at::Tensor& log_sum) {
  const Tasks tasks(q, k, v, bias, layout, dropout);
  float* const to = out.mutable_data_ptr<float>();
  float* const sums = log_sum.mutable_data_ptr<float>();
  parallel_tasks(tasks.count(), tasks.work(), [&](int64_t task) {
    const Head head = tasks[task];
    const int64_t h = head.column / head.kernel.width;
    kernels().attention(head.kernel, to + head.query_row * out.stride(0) + head.column, out.stride(0),
                        sums + h * log_sum.stride(0) + head.query_row);
  });
}

void attention_backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                        const AttentionLayout& layout, const Dropout& dropout, const at::Tensor& out,
                        const at::Tensor& log_sum, const at::Tensor& dout, at::Tensor& dq, at::Tensor& dk,
                        at::Tensor& dv, at::Tensor& dbias) {
  const Tasks tasks(q, k, v, bias, layout, dropout);
  const float *const o = out.const_data_ptr<float>(), *const d_o = dout.const_data_ptr<float>();
  const float* const sums = log_sum.const_data_ptr<float>();
  float *const to_q = dq.mutable_data_ptr<float>(), *const to_k = dk.mutable_data_ptr<float>(),
               *const to_v = dv.mutable_data_ptr<float>(),
               *const to_bias = dbias.defined() ? dbias.mutable_data_ptr<float>() : nullptr;
  parallel_tasks(tasks.count(), tasks.work(), [&](int64_t task) {
    const Head head = tasks[task];
    const int64_t h = head.column / head.kernel.width;
    const int64_t at = head.query_row * out.stride(0) + head.column;
    const int64_t at_key = head.key_row * dk.stride(0) + head.column;
    kernels().attention_backward(
        head.kernel, o + at, d_o + at, out.stride(0), sums + h * log_sum.stride(0) + head.query_row,
        to_q + head.query_row * dq.stride(0) + head.column, dq.stride(0), to_k + at_key, to_v + at_key,
        dk.stride(0), to_bias ? to_bias + head.pair : nullptr);
  });
}

}  // namespace pipeline::transformer
