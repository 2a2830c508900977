#pragma once

// GELU in its forms, and the gate of SwiGLU, for a vector of values.

#include "kernels.hpp"
#include "simd.hpp"

namespace pipeline::transformer {
namespace {

PIPELINE_INLINE Vec sigmoid(Vec x) { return 1.0f / (1.0f + exp(-x)); }

PIPELINE_INLINE Vec tanh_gelu_of(Vec x) {
  const Vec inner = x * (1.5957691216057308f + 0.07135481627f * x * x);  // twice the argument of tanh
  return x / (1.0f + exp(-inner));
}

struct GeluAndSlope {
  Vec value, slope;
};

PIPELINE_INLINE GeluAndSlope tanh_gelu_and_slope_of(Vec v) {
  // gelu = v s with s the logistic function of t = 2 sqrt(2/pi) (v + 0.044715 v^3).
  const Vec square = v * v;
  const Vec t = v * (1.5957691216057308f + 0.07135481627f * square);
  const Vec slope = 1.5957691216057308f + 0.21406444881f * square;
  const Vec s = sigmoid(t);
  return {v * s, s + v * s * (1.0f - s) * slope};
}

PIPELINE_INLINE GeluAndSlope quick_gelu_of(Vec x) {
  const Vec s = sigmoid(1.702f * x), value = x * s;
  return {value, s + 1.702f * value * (1.0f - s)};
}

// x Phi(x) with Phi the distribution function of the standard normal, and the derivative Phi(x) + x phi(x).
// The tail Phi(-a) for a >= 0 is exp(-a^2 / 2) times a ratio of polynomials, as in Hart et al., Computer
// Approximations (1968), function 5666. This ratio was fitted to 0 <= a <= 14, beyond which the tail is 0 in
// fp32: relative error 6e-9 before rounding. No term is negative, so no digits cancel, in the tail neither.
PIPELINE_INLINE GeluAndSlope exact_gelu_of(Vec x) {
  const Vec size = max(x, -x), a = min(size, splat(14.0f));
  Vec p = splat(0.004077583085745573f);
  p = p * a + 0.04037240147590637f;
  p = p * a + 0.1824614256620407f;
  p = p * a + 0.43725043535232544f;
  p = p * a + 0.5f;
  Vec q = splat(0.01022085640579462f);
  q = q * a + 0.10120540857315063f;
  q = q * a + 0.4674279987812042f;
  q = q * a + 1.199289083480835f;
  q = q * a + 1.672385811805725f;
  q = q * a + 1.0f;
  const Vec bell = exp(-0.5f * a * a);
  const Vec tail = bell * p / q;
  const Vec phi = bell * 0.3989422804014327f;
  const Vec zero{};
  // `size` and not a: what is not finite must not become finite.
  return {max(x, zero) - size * tail, (x > zero ? 1.0f - tail : tail) + x * phi};
}

template <Gelu Form>
PIPELINE_INLINE GeluAndSlope gelu_and_slope_of(Vec x) {
  if constexpr (Form == Gelu::kTanh) return tanh_gelu_and_slope_of(x);
  if constexpr (Form == Gelu::kExact) return exact_gelu_of(x);
  if constexpr (Form == Gelu::kQuick) return quick_gelu_of(x);
}

template <Gelu Form>
PIPELINE_INLINE Vec gelu_of(Vec x) {
  if constexpr (Form == Gelu::kTanh) return tanh_gelu_of(x);
  return gelu_and_slope_of<Form>(x).value;
}

}  // namespace
}  // namespace pipeline::transformer
