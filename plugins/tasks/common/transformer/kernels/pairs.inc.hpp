#pragma once

// Kernels over pairs of positions.

#include "rows.inc.hpp"

namespace pipeline::transformer {
namespace {

static void gaussians(const float* x, int64_t count, const float* centers, int64_t functions, float factor,
                      float* out, int64_t stride) {
  for (int64_t i = 0; i < count; ++i, out += stride) {
    const Vec at = splat(x[i]);
    for_vectors(
        0, functions, [&](int64_t, auto get, auto put) __attribute__((always_inline)) {
          const Vec d = at - get(centers);
          put(out, exp(d * d * -factor));
        });
  }
}

}  // namespace
}  // namespace pipeline::transformer
