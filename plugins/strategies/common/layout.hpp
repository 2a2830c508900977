#pragma once

#include <pipeline/parameter.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace pipeline::strategies {

// Sizes in elements. The fused optimizer kernels treat the last few elements of a tensor differently from
// the rest, with different rounding; so the length of every run passed to them is a multiple of kRun, and
// an element's bits do not depend on where a shard ends. Parameters begin at multiples of kAlignment. The
// gradient norm is summed in chunks of kChunk; every shard and every group begins at a multiple of it.
inline constexpr int64_t kRun = 16;
inline constexpr int64_t kAlignment = 64;
inline constexpr int64_t kChunk = 4096;

constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Where one parameter lies in the flat arena.
struct Slot {
  size_t parameter;  // its index
  int64_t offset;
  int64_t count;
  int64_t padded;  // count, rounded up to kRun; the elements in between are zero and stay zero
  std::vector<int64_t> shape;
};

// A contiguous run of parameters of one unit that are updated in the same way.
struct Group {
  double lr_multiplier;
  uint32_t optimizer;  // index of its rule
  uint32_t loss;       // that trains it
  size_t first_slot;
  size_t slot_count;
  int64_t begin;  // elements of the arena, multiples of kChunk
  int64_t end;
};

// How values are stored: in the run's dtype, in bfloat16, or as bytes of the task's own, an element of the
// arena for each. The last two are frozen.
enum class Stored : size_t { kWide, kNarrow, kBytes };
inline constexpr std::array kStoredWays{Stored::kWide, Stored::kNarrow, Stored::kBytes};

// A unit's trainable parameters, or those of its frozen ones that are kept in the same way.
struct Region {
  uint32_t unit;
  int64_t begin;
  int64_t end;
};

// The order of all parameters in one flat arena: trainable ones by unit and, within a unit, by group; then
// frozen ones by unit, first the wide, then the narrow, then those that are bytes. A pure function of the
// parameters, hence the same on every rank.
class Layout {
 public:
  // Regions begin at multiples of `alignment`, itself a multiple of kChunk. Elements between regions are
  // zero and add nothing to a sum, so the alignment does not change any bits.
  explicit Layout(const std::vector<Parameter>& parameters, int64_t alignment = kChunk);

  const std::vector<Slot>& slots() const { return slots_; }  // by offset
  const std::vector<Group>& groups() const { return groups_; }
  const std::vector<Region>& regions() const { return regions_; }  // by offset
  size_t losses() const { return losses_; }                        // at least 1
  size_t trainable_slots() const { return trainable_slots_; }      // they come first
  int64_t trainable_length() const { return trainable_length_; }   // elements, a multiple of the alignment
  int64_t begin(Stored how) const { return begins_[static_cast<size_t>(how)]; }
  int64_t end(Stored how) const { return begins_[static_cast<size_t>(how) + 1]; }
  Stored stored(int64_t offset) const {  // what is there
    return offset < end(Stored::kWide)     ? Stored::kWide
           : offset < end(Stored::kNarrow) ? Stored::kNarrow
                                           : Stored::kBytes;
  }
  int64_t length() const { return length_; }  // with the frozen ones
  const Slot& slot_of(size_t parameter) const { return slots_[slot_index_[parameter]]; }
  const Slot& slot_at(int64_t offset) const;  // that begins there
  size_t slot_index(size_t parameter) const { return slot_index_[parameter]; }

 private:
  void place(const std::vector<Parameter>& parameters, size_t index);
  void place_groups(const std::vector<Parameter>& parameters, const std::vector<size_t>& members);
  void place_region(const std::vector<Parameter>& parameters, uint32_t unit, bool trainable, Stored how);

  int64_t alignment_;
  size_t losses_ = 1;
  std::vector<Slot> slots_;
  std::vector<Group> groups_;
  std::vector<Region> regions_;
  std::vector<size_t> slot_index_;  // by parameter
  size_t trainable_slots_ = 0;
  int64_t trainable_length_ = 0;
  int64_t length_ = 0;
  std::array<int64_t, kStoredWays.size() + 1> begins_{};  // and the end
};

// The gradient of a run of the arena: float32, one-dimensional, contiguous, its length a multiple of kRun.
// A run that is missing from a list is all zero.
struct GradientRun {
  int64_t offset;  // of its first element in the arena, a multiple of kRun
  at::Tensor gradient;
};

using GradientRuns = std::vector<GradientRun>;  // by offset

// What the value of a parameter is kept and bound in.
inline pl_dtype dtype_of(const Parameter& parameter, const pl_run_info& run) {
  return parameter.is_coded() ? kUInt8 : parameter.form == PL_FORM_BFLOAT16 ? kBFloat16 : run.parameter_dtype;
}
// The same for elements of the arena.
inline at::ScalarType type_of(Stored how, at::ScalarType wide) {
  return how == Stored::kWide ? wide : how == Stored::kNarrow ? at::kBFloat16 : at::kByte;
}

// The layout for a run; for values only if it does not train. Throws Error for dtypes that are not known.
// What is trained is never narrow.
std::shared_ptr<const Layout> make_layout(std::vector<Parameter> parameters, const pl_run_info& run,
                                          int64_t alignment = kChunk);

}  // namespace pipeline::strategies
