#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pipeline/parameter.hpp>

namespace pipeline::strategies {

// Sizes in elements. The fused optimizer kernels treat the last few elements of a tensor otherwise than the
// rest, and the two round differently: every run that they are given is a multiple of kRun long, so that an
// element's bits do not depend on where a shard ends. Parameters begin at multiples of kAlignment. kChunk is
// what the gradient norm is summed in, and every shard and every group begins at a multiple of it.
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
};

// A contiguous region of parameters that are updated alike.
struct Group {
  double lr_multiplier;
  bool decay;
  size_t first_slot;
  size_t slot_count;
};

// The order of all parameters in one flat arena: trainable ones by group, then frozen ones. A pure function
// of the parameters, hence the same on every rank and for every world size.
class Layout {
 public:
  explicit Layout(const std::vector<Parameter>& parameters);

  const std::vector<Slot>& slots() const { return slots_; }  // by offset
  const std::vector<Group>& groups() const { return groups_; }
  size_t trainable_slots() const { return trainable_slots_; }     // they come first
  int64_t trainable_length() const { return trainable_length_; }  // elements, a multiple of kChunk
  int64_t length() const { return length_; }                      // with the frozen ones
  const Slot& slot_of(size_t parameter) const { return slots_[slot_index_[parameter]]; }
  size_t slot_index(size_t parameter) const { return slot_index_[parameter]; }

 private:
  void place(const std::vector<Parameter>& parameters, size_t index);

  std::vector<Slot> slots_;
  std::vector<Group> groups_;
  std::vector<size_t> slot_index_;  // by parameter
  size_t trainable_slots_ = 0;
  int64_t trainable_length_ = 0;
  int64_t length_ = 0;
};

}  // namespace pipeline::strategies
