#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace pipeline::strategies {

// What a rule keeps of each weight, and how. Narrow forms are rounded to one neighbour or the other at
// random, so that the value expected is the value given: a moment moves by less than a rounding step at a
// time, and rounded to nearest it would stay where it is.
enum class StateForm {
  kFloat32,
  kBFloat16,
  // A byte for each weight and a float32 scale for each block of kBlock, the largest size in it (block-wise
  // as in Dettmers et al., arXiv 2110.02861): scale (q / 127)^2 with q's sign, for values of both signs, and
  // scale (q / 255)^4 for those of one, which are squares.
  kSigned8,
  kUnsigned8
};

struct StateKind {
  std::string name;  // that of checkpoints, see pl_piece
  StateForm form = StateForm::kFloat32;
  bool operator==(const StateKind&) const = default;
};

// A parameter begins at a multiple of it and a shard ends at one, so that no block has two.
inline constexpr int64_t kBlock = 64;

inline bool has_scales(StateForm form) {
  return form == StateForm::kSigned8 || form == StateForm::kUnsigned8;
}
at::ScalarType dtype_of(StateForm form);

// State of `values` weights in a row; `scales` is undefined but for the forms that have them.
struct Kept {
  at::Tensor values, scales;
};

// Zeros for `length` weights.
Kept make_state(StateForm form, int64_t length, const at::TensorOptions& options);
// The state of the weights from `begin` on; begin: a multiple of kBlock.
Kept narrow_state(const Kept& kept, int64_t begin, int64_t length);
// The state in float32.
at::Tensor widened(StateForm form, const Kept& kept);
// Rounds `values`, float32. noise: int32, of which the lower 16 bits are random; undefined: to nearest. What
// the form has exactly keeps its bits in either case.
void narrow_to(StateForm form, const at::Tensor& values, const at::Tensor& noise, const Kept& into);

// 32 random bits for each of `length` elements of a unit from `first` on, int32: a pure function of these and
// of the step, a float32 scalar on the device. So they depend neither on who computes them nor on when.
at::Tensor noise(uint32_t unit, int64_t first, int64_t length, const at::Tensor& step);

}  // namespace pipeline::strategies
