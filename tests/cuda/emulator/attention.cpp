// LibTorch's fused attention for CUDA, emulated: what it takes and refuses, and what it computes (in float32,
// head by head).
#include <ATen/ATen.h>
#include <torch/headeronly/version.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
#include <vector>

#include "device.hpp"

namespace pipeline::emulator {
namespace {

bool is_half(const at::Tensor& x) { return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16; }

// Attention of one sequence and head, in float32: q (n, D), k and v (m, D). Causal masks end with the last
// query and the last key.
struct One {
  at::Tensor q, k, v;
  double scale;
  bool causal;
  int64_t before, after;  // how many keys around its own a query sees; below 0: all
  at::Tensor kept;        // (n, m), 0 or what dropout scales by; undefined: all are kept

  at::Tensor scores() const {
    const at::Tensor s = at::mm(q, k.t()) * scale;
    const int64_t n = q.size(0), m = k.size(0);
    at::Tensor seen = at::ones({n, m}, at::kBool);
    if (causal || after >= 0) seen = seen.tril(m - n + (causal ? 0 : after));
    if (before >= 0) seen = seen.triu(m - n - before);
    return s.masked_fill(seen.logical_not_(), -INFINITY);
  }
  at::Tensor log_sum() const {
    return k.size(0) == 0 ? at::full({q.size(0)}, INFINITY) : scores().logsumexp(1);
  }
  at::Tensor weights(const at::Tensor& log_sums) const {
    // Rows that see no key.
    return (scores() - log_sums.unsqueeze(1)).exp_().masked_fill_(log_sums.isinf().unsqueeze(1), 0);
  }
  at::Tensor dropped(const at::Tensor& w) const { return kept.defined() ? w * kept : w; }
  at::Tensor out(const at::Tensor& log_sums) const { return at::mm(dropped(weights(log_sums)), v); }
  std::array<at::Tensor, 3> backward(const at::Tensor& dout, const at::Tensor& result,
                                     const at::Tensor& log_sums) const {
    const at::Tensor w = weights(log_sums), dw = dropped(at::mm(dout, v.t()));
    const at::Tensor ds = w * (dw - (dout * result).sum(1, true)) * scale;
    return {at::mm(ds, k), at::mm(ds.t(), q), at::mm(dropped(w).t(), dout)};
  }
};

// A batch of sequences end to end, (N, heads, D) on the host.
struct Sequences {
  at::Tensor q, k, v;
  std::vector<int64_t> q_starts, k_starts, seen;
  double dropout;
  bool causal;
  uint64_t seed;
  std::optional<double> scale = {};
  int64_t before = -1, after = -1;

  int64_t count() const { return static_cast<int64_t>(q_starts.size()) - 1; }
  int64_t heads() const { return q.size(1); }
  int64_t key_head(int64_t head) const { return head / (heads() / k.size(1)); }
  at::Tensor rows(const at::Tensor& of, int64_t s, int64_t head) const {
    const auto i = static_cast<size_t>(s);
    return of.narrow(0, q_starts[i], q_starts[i + 1] - q_starts[i]).select(1, head);
  }
  at::Tensor key_rows(const at::Tensor& of, int64_t s, int64_t head) const {
    const auto i = static_cast<size_t>(s);
    return of.narrow(0, k_starts[i], seen[i]).select(1, key_head(head));
  }
  One one(int64_t s, int64_t head) const {
    One made{rows(q, s, head).to(at::kFloat),
             key_rows(k, s, head).to(at::kFloat),
             key_rows(v, s, head).to(at::kFloat),
             scale.value_or(1 / std::sqrt(static_cast<double>(q.size(2)))),
             causal,
             before,
             after,
             {}};
    if (dropout > 0) {
      const auto place = static_cast<uint64_t>(s * heads() + head);
      at::Generator random = at::make_generator<at::CPUGeneratorImpl>(seed * 1000003 + place);
      made.kept =
          at::empty({made.q.size(0), made.k.size(0)}).bernoulli_(1 - dropout, random).mul_(1 / (1 - dropout));
    }
    return made;
  }
};

std::vector<int64_t> numbers(const at::Tensor& on_the_device, const char* what, int64_t count) {
  TORCH_CHECK(on_the_device.is_cuda() && on_the_device.scalar_type() == at::kInt &&
                  on_the_device.is_contiguous() && on_the_device.dim() == 1 && on_the_device.numel() == count,
              what, ": must be ", count, " int32 on the device, got ", on_the_device.toString(), " ",
              on_the_device.sizes());
  const at::Tensor wide = from_device(on_the_device).to(at::kLong);
  return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

void check(const at::Tensor& x, const at::Tensor& q, const char* what) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == q.scalar_type() && x.stride(-1) == 1, what,
              ": must be on the device, of the type of q, and dense in its last dimension");
}

Sequences sequences(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& q_starts,
                    const at::Tensor& k_starts, int64_t most_q, int64_t most_k,
                    const std::optional<at::Tensor>& seen, double dropout, bool causal, uint64_t seed) {
  TORCH_CHECK(is_half(q), "FlashAttention only support fp16 and bf16 data type");
  check(q, q, "q"), check(k, q, "k"), check(v, q, "v");
  TORCH_CHECK(q.size(2) % 8 == 0 && q.size(2) <= 256,
              "FlashAttention forward only supports head dimension at most 256, a multiple of 8");
  TORCH_CHECK(q.size(1) % k.size(1) == 0,
              "Number of heads in key/value must divide number of heads in query");
  Sequences made{from_device(q),
                 from_device(k),
                 from_device(v),
                 numbers(q_starts, "cu_seqlens_q", q_starts.numel()),
                 numbers(k_starts, "cu_seqlens_k", q_starts.numel()),
                 {},
                 dropout,
                 causal,
                 seed};
  for (size_t s = 0; s + 1 < made.k_starts.size(); ++s)
    made.seen.push_back(made.k_starts[s + 1] - made.k_starts[s]);
  TORCH_CHECK(
      made.q_starts.back() == q.size(0) && made.k_starts.back() == k.size(0) && v.sizes() == k.sizes(),
      "offsets do not end with the rows");
  for (size_t s = 0; s + 1 < made.q_starts.size(); ++s)
    TORCH_CHECK(made.q_starts[s + 1] - made.q_starts[s] <= most_q && made.seen[s] <= most_k, "sequence ", s,
                " is longer than the longest");
  if (seen && seen->defined()) made.seen = numbers(*seen, "seqused_k", made.count());
  return made;
}

using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Five forward(const Sequences& of) {
  at::Tensor out = at::zeros(of.q.sizes(), of.q.options()), log_sums = at::zeros({of.heads(), of.q.size(0)});
  for (int64_t s = 0; s < of.count(); ++s) {
    for (int64_t head = 0; head < of.heads(); ++head) {
      const One one = of.one(s, head);
      const at::Tensor log_sum = one.log_sum();
      of.rows(out, s, head).copy_(one.out(log_sum));
      of.rows(log_sums.t().unsqueeze(2), s, head).select(1, 0).copy_(log_sum);
    }
  }
  return {on_device(out), on_device(log_sums),
          on_device(at::tensor({static_cast<int64_t>(of.seed), int64_t{0}}, at::kLong)),
          on_device(at::empty({}, at::kLong)), at::Tensor()};
}

// Gradients of keys and values are sums over the heads that share them, as in LibTorch.
Three backward(const Sequences& of, const at::Tensor& dout, const at::Tensor& out,
               const at::Tensor& log_sums) {
  at::Tensor dq = at::zeros(of.q.sizes()), dk = at::zeros(of.k.sizes()), dv = at::zeros(of.v.sizes());
  for (int64_t s = 0; s < of.count(); ++s) {
    for (int64_t head = 0; head < of.heads(); ++head) {
      const auto rows = [&](const at::Tensor& x) { return of.rows(x, s, head); };
      const auto made =
          of.one(s, head).backward(rows(dout).to(at::kFloat), rows(out).to(at::kFloat),
                                   rows(log_sums.t().unsqueeze(2).expand({-1, -1, 1})).select(1, 0));
      rows(dq).add_(made[0]);
      of.key_rows(dk, s, head).add_(made[1]);
      of.key_rows(dv, s, head).add_(made[2]);
    }
  }
  const auto back = [&](const at::Tensor& x) { return on_device(x.to(of.q.scalar_type())); };
  return {back(dq), back(dk), back(dv)};
}

Sequences in_window(Sequences of, std::optional<double> scale, std::optional<int64_t> left,
                    std::optional<int64_t> right) {
  TORCH_CHECK(left.has_value() == right.has_value() && (!of.causal || right.value_or(0) == 0),
              "a causal window has no keys behind a query's own");
  of.scale = scale;
  of.before = left.value_or(-1), of.after = right.value_or(-1);
  return of;
}

Five flash(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
           const std::optional<at::Tensor>& q_starts, const std::optional<at::Tensor>& k_starts,
           int64_t most_q, int64_t most_k, double dropout, bool causal, bool, std::optional<double> scale,
           std::optional<int64_t> left, std::optional<int64_t> right, const std::optional<at::Tensor>& seen,
           const std::optional<at::Tensor>& slopes
#if TORCH_VERSION_MINOR >= 15
           ,
           const std::optional<at::Tensor>& /*blocks*/, std::optional<int64_t> /*splits*/
#endif
) {
  TORCH_CHECK(q_starts && k_starts && !slopes, "emulated for ragged batches");
  return forward(in_window(sequences(q, k, v, *q_starts, *k_starts, most_q, most_k, seen, dropout, causal,
                                     default_generator().current_seed()),
                           scale, left, right));
}

Three flash_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& out, const at::Tensor& log_sums, const at::Tensor& q_starts,
                     const at::Tensor& k_starts, int64_t most_q, int64_t most_k, double dropout, bool causal,
                     const at::Tensor& random, const at::Tensor&, std::optional<double> scale,
                     std::optional<int64_t> left, std::optional<int64_t> right) {
  check(dout, q, "dout"), check(out, q, "out");
  TORCH_CHECK(dout.sizes() == q.sizes() && out.sizes() == q.sizes(), "dout and out must have the shape of q");
  const auto seed = static_cast<uint64_t>(from_device(random).select(0, 0).item<int64_t>());
  return backward(in_window(sequences(q, k, v, q_starts, k_starts, most_q, most_k, {}, dropout, causal, seed),
                            scale, left, right),
                  from_device(dout), from_device(out), from_device(log_sums));
}

// (B, H, T, D) as sequences end to end.
at::Tensor as_rows(const at::Tensor& x) {
  return from_device(x).transpose(1, 2).reshape({x.size(0) * x.size(2), x.size(1), x.size(3)});
}
at::Tensor as_batch(const at::Tensor& rows,
                    const at::Tensor& like) {  // with the rows' order in memory, as cuDNN's results
  return on_device(on_host(rows).view({like.size(0), like.size(2), like.size(1), like.size(3)}))
      .transpose(1, 2);
}
Sequences equal_sequences(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const std::optional<at::Tensor>& bias, double dropout, bool causal) {
  TORCH_CHECK(is_half(q) && q.dim() == 4 && q.size(3) % 8 == 0 && q.size(3) <= 128 && k.dim() == 4 &&
                  k.size(0) == q.size(0) && q.size(1) % k.size(1) == 0 && k.size(2) == q.size(2) &&
                  k.size(3) == q.size(3) && v.sizes() == k.sizes(),
              "cuDNN attention does not take ", q.toString(), " ", q.sizes(), " and ", k.sizes());
  check(q, q, "q"), check(k, q, "k"), check(v, q, "v");
  TORCH_CHECK(dropout == 0 && !(bias && bias->defined()), "emulated without dropout and bias");
  Sequences made{as_rows(q), as_rows(k), as_rows(v), {}, {}, {}, 0, causal, 0};
  for (int64_t b = 0; b <= q.size(0); ++b) made.q_starts.push_back(b * q.size(2));
  made.k_starts = made.q_starts;
  made.seen.assign(static_cast<size_t>(q.size(0)), q.size(2));
  return made;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor,
           at::Tensor>
cudnn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& bias,
      bool log_sumexp, double dropout, bool causal, bool, std::optional<double>) {
  TORCH_CHECK(log_sumexp, "emulated for training");
  const auto made = forward(equal_sequences(q, k, v, bias, dropout, causal));
  return {as_batch(std::get<0>(made), q),
          std::get<1>(made),
          {},
          {},
          q.size(2),
          q.size(2),
          on_device(at::empty({}, at::kLong)),
          on_device(at::empty({}, at::kLong)),
          {}};
}

Three cudnn_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& out, const at::Tensor& log_sums, const at::Tensor& seed,
                     const at::Tensor& offset, const at::Tensor& bias, const at::Tensor& q_starts,
                     const at::Tensor&, int64_t, int64_t, double dropout, bool causal,
                     std::optional<double>) {
  TORCH_CHECK(!at::globalContext().deterministicAlgorithms(),
              "cuDNN attention backward does not have a deterministic implementation");
  TORCH_CHECK(dout.sizes() == q.sizes() && seed.defined() && offset.defined() && !q_starts.defined(),
              "cuDNN attention: other arguments than forward's");
  const auto [dq, dk, dv] = backward(equal_sequences(q, k, v, bias, dropout, causal), as_rows(dout),
                                     as_rows(out), from_device(log_sums));
  return {as_batch(dq, q), as_batch(dk, k), as_batch(dv, k)};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_flash_attention_forward", &flash);
  m.impl("_flash_attention_backward", &flash_backward);
  m.impl("_scaled_dot_product_cudnn_attention", &cudnn);
  m.impl("_scaled_dot_product_cudnn_attention_backward", &cudnn_backward);
}

}  // namespace pipeline::emulator
