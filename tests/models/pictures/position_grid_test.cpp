// Positions that are fitted to another grid, against torch's own interpolation.
#include "plugins/models/vision/vision_tower.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pipeline::pictures {
namespace {

at::Tensor torchs(const at::Tensor& positions, const vision::PatchGrid& grid, vision::Interpolation how) {
  const at::Tensor square = positions.view({1, 5, 5, -1}).permute({0, 3, 1, 2});
  const std::vector<int64_t> size{grid.rows, grid.columns};
  const at::Tensor made = how == vision::Interpolation::kBicubic ? at::upsample_bicubic2d(square, size, false)
                          : how == vision::Interpolation::kSmoothBicubic
                              ? at::_upsample_bicubic2d_aa(square, size, false)
                              : at::_upsample_bilinear2d_aa(square, size, false);
  return made.permute({0, 2, 3, 1}).reshape({grid.patches(), -1});
}

TEST(PositionGrid, IsWhatTorchInterpolates) {
  at::manual_seed(3);
  const at::Tensor positions = at::randn({25, 7});
  for (const vision::Interpolation how :
       {vision::Interpolation::kBicubic, vision::Interpolation::kSmoothBicubic,
        vision::Interpolation::kSmoothBilinear})
    for (const vision::PatchGrid& grid :
         {vision::PatchGrid{3, 3}, {7, 7}, {1, 20}, {9, 2}, {4, 5}, {1, 1}, {12, 11}}) {
      const double difference =
          (vision::fitted(positions, grid, how) - torchs(positions, grid, how)).abs().max().item<double>();
      EXPECT_LT(difference, 3e-6) << static_cast<int>(how) << ", " << grid.rows << "x" << grid.columns;
    }
  EXPECT_TRUE(vision::fitted(positions, {5, 5}, vision::Interpolation::kBicubic).is_same(positions));
}

// For one column torch 2.11 gives all rows what the first one has.
TEST(PositionGrid, OneColumnHasTheMeanOfEachRow) {
  const at::Tensor positions = at::arange(25, at::kFloat).view({25, 1});
  const at::Tensor column =
      vision::fitted(positions, {5, 1}, vision::Interpolation::kSmoothBilinear).flatten();
  EXPECT_TRUE(at::allclose(column, at::arange(5, at::kFloat) * 5 + 2)) << column;
}

}  // namespace
}  // namespace pipeline::pictures
