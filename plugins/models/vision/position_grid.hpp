// Learnt positions of a square of patches, for another number of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pipeline::vision {

// Patches of a picture, row by row.
struct PatchGrid {
  int64_t rows = 0, columns = 0;

  int64_t patches() const { return rows * columns; }
  bool operator==(const PatchGrid&) const = default;
};

// How torch.nn.functional.interpolate() is done, without aligned corners; but where the result is one column
// wide, torch 2.11 on a CPU gives all rows what the first has, with antialias.
enum class Interpolation : uint8_t {
  kBicubic,        // DINOv2
  kSmoothBicubic,  // with antialias: DINOv2 with registers
  kSmoothBilinear  // with antialias: SigLIP 2's NaFlex
};

// positions (side * side, C), row by row -> (rows * columns, C), themselves where nothing changes. They are
// products of matrices, whose gradients are the same on every device and in every run.
at::Tensor fitted(const at::Tensor& positions, const PatchGrid& grid, Interpolation how);

}  // namespace pipeline::vision
