#include "plugins/models/vision/position_grid.hpp"

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

namespace pipeline::vision {
namespace {

// The cubic convolution of Keys (1981), at a distance. `sharpness`: torch's, -0.75, and with antialias
// Pillow's, -0.5.
double cubic(double x, double sharpness) {
  x = std::abs(x);
  if (x < 1) return ((sharpness + 2) * x - (sharpness + 3)) * x * x + 1;
  return x < 2 ? ((sharpness * x - 5 * sharpness) * x + 8 * sharpness) * x - 4 * sharpness : 0;
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// (to, from): what each of `to` places along a side takes of the `from` that there are.
at::Tensor weights(int64_t from, int64_t to, Interpolation how) {
  at::Tensor matrix = at::zeros({to, from}, at::kFloat);
  auto values = matrix.accessor<float, 2>();
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    if (how == Interpolation::kBicubic) {
      const double at = centre - 0.5;
      const auto first = static_cast<int64_t>(std::floor(at)) - 1;
      for (int64_t j = first; j < first + 4; ++j)  // beyond the edge its last one stands for all
        values[i][std::clamp<int64_t>(j, 0, from - 1)] +=
            static_cast<float>(cubic(at - static_cast<double>(j), -0.75));
      continue;
    }
    const bool is_cubic = how == Interpolation::kSmoothBicubic;
    const double stretch = std::max(scale, 1.0), reach = (is_cubic ? 2 : 1) * stretch;
    const int64_t begin = std::max<int64_t>(static_cast<int64_t>(centre - reach + 0.5), 0),
                  end = std::min(static_cast<int64_t>(centre + reach + 0.5), from);
    const auto weight = [&](int64_t j) {
      const double distance = (static_cast<double>(j) - centre + 0.5) / stretch;
      return is_cubic ? cubic(distance, -0.5) : triangle(distance);
    };
    double sum = 0;
    for (int64_t j = begin; j < end; ++j) sum += weight(j);
    for (int64_t j = begin; j < end; ++j) values[i][j] = static_cast<float>(weight(j) / sum);
  }
  return matrix;
}

}  // namespace

at::Tensor fitted(const at::Tensor& positions, const PatchGrid& grid, Interpolation how) {
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(positions.size(0)))));
  if (grid.rows == side && grid.columns == side) return positions;
  const int64_t width = positions.size(1);
  const auto along = [&](int64_t to) {
    return weights(side, to, how).to(positions.device(), positions.scalar_type());
  };
  const at::Tensor rows = at::matmul(along(grid.rows), positions.view({side, side * width}));
  return at::matmul(along(grid.columns), rows.view({grid.rows, side, width})).view({-1, width});
}

}  // namespace pipeline::vision
