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

// For an output head: its loss is (1 - weight) x the cross entropy + weight x the divergence.
struct Distillation {
  Divergence kind = {};
  double weight = 0.5;
  // The teacher's logits of rows `begin` to begin + count of those of the head: (count, V) fp32.
  std::function<at::Tensor(int64_t begin, int64_t count)> logits = nullptr;
  at::Tensor row_losses = {};  // (rows) fp32, receives the divergences
};

}  // namespace pipeline::transformer
