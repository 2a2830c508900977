// Learning from another model's probabilities.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace pipeline::transformer {

// How far the probabilities s of a model are from those of its teacher, t, both of logits divided by
// `temperature`. The generalized Jensen-Shannon divergence of GKD (Agarwal et al., arXiv:2306.13649), with
// m = beta t + (1 - beta) s:
//
//   beta KL(t | m) + (1 - beta) KL(s | m)
//
// beta 0: KL(t | s), the cross entropy beside the teacher but for a constant; 1: KL(s | t).
struct Divergence {
  double beta = 0;
  double temperature = 1;
};

struct DivergenceOfRows {
  at::Tensor losses;    // (N) fp32, in nats
  at::Tensor gradient;  // (N, V) fp32, of the sum by `logits`; undefined: not asked for
};

// logits, of_teacher: (N, V). Not differentiable.
DivergenceOfRows divergence(const at::Tensor& logits, const at::Tensor& of_teacher, const Divergence& kind,
                            bool gradient);

// What is kept of a teacher's probabilities: of each row the k likeliest tokens.
struct LikeliestTokens {
  at::Tensor ids;  // (N, k) int64
  at::Tensor
      log_p;  // (N, k + 1) fp32: theirs, and that of all others together; (N, V) if there are no others

  LikeliestTokens rows(int64_t begin, int64_t count) const {
    return {ids.narrow(0, begin, count), log_p.narrow(0, begin, count)};
  }
};

// logits: (N, V), divided by `temperature`; k: 1 to V.
LikeliestTokens likeliest_tokens(const at::Tensor& logits, int64_t k, double temperature);

// The divergence over k + 1 events: each of the teacher's likeliest tokens, and any other one. It is at most
// that over all tokens, and the same where k is V.
DivergenceOfRows divergence(const at::Tensor& logits, const LikeliestTokens& of_teacher,
                            const Divergence& kind, bool gradient);

// For an output head: its loss is (1 - weight) x the cross entropy + weight x the divergence.
struct Distillation {
  Divergence kind = {};
  double weight = 0.5;
  // The teacher's logits of rows `begin` to begin + count of those of the head: (count, V) fp32.
  std::function<at::Tensor(int64_t begin, int64_t count)> logits = nullptr;
  LikeliestTokens likeliest = {};  // in place of them
  at::Tensor row_losses = {};      // (rows) fp32, receives the divergences

  bool is_wanted() const { return logits != nullptr || likeliest.ids.defined(); }
  DivergenceOfRows of(const at::Tensor& student_logits, int64_t begin, bool gradient) const {
    const int64_t count = student_logits.size(0);
    return logits ? divergence(student_logits, logits(begin, count), kind, gradient)
                  : divergence(student_logits, likeliest.rows(begin, count), kind, gradient);
  }
};

}  // namespace pipeline::transformer
