#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/parameter.hpp>
#include <pipeline/state.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// One kind of state over a part of the arena: `values` are its elements from `begin` on.
struct ArenaPart {
  std::string kind;
  int64_t begin;
  at::Tensor values;     // one-dimensional
  bool is_copy = false;  // nobody else has it
};

// Copies device data to pageable host memory, as float32, or bytes as they are. A direct copy would run at a
// fraction of the bus's speed; this one alternates between two pinned buffers of at most `piece` elements.
inline constexpr int64_t kStagedElements = int64_t{1} << 23;
at::Tensor staged_copy(const at::Tensor& values, int64_t piece);

// The snapshot of a rank that saves nothing, since others' pieces are enough.
std::unique_ptr<Snapshot> no_pieces();

// The arena as checkpoints see it: pieces of named tensors, in float32; in host memory what the layout keeps
// in bfloat16 is in that, and bytes are everywhere bytes.
class ArenaState {
 public:
  ArenaState(std::shared_ptr<const Layout> layout, const std::vector<Parameter>& parameters);

  // Returns a snapshot of `parts` and the step counts by loss (undefined: another rank has them). copy: later
  // changes do not show; otherwise the snapshot refers to parts that are float32 in host memory. To what is
  // frozen, which nothing changes, it refers in either case: the device's is copied and the narrow widened
  // when they are visited, a parameter at a time, for the host may not have room for all of it.
  std::unique_ptr<Snapshot> snapshot(std::vector<ArenaPart> parts, const at::Tensor& step_counts,
                                     bool copy) const;

  // Fills `part` from the reader, in pieces where it is not float32 in host memory. Leaves padding unchanged.
  void read(const StateReader& reader, const ArenaPart& part) const;
  // By loss; zeros where the reader has values only.
  at::Tensor read_step_counts(const StateReader& reader) const;

 private:
  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<const std::vector<Parameter>> parameters_;
};

// The whole model's values in the order of `layout`, zeros at first: the wide ones of `dtype`.
class ValueArena {
 public:
  ValueArena(std::shared_ptr<const Layout> layout, at::ScalarType dtype, at::Device device);

  // A view of `length` elements from `begin` on, which are kept in the same way.
  at::Tensor part(int64_t begin, int64_t length) const;
  // Where parameter `index` is; borrowed from this object.
  void* address(size_t index) const;
  at::ScalarType dtype() const { return values_.front().scalar_type(); }
  uint64_t bytes() const;

 private:
  std::shared_ptr<const Layout> layout_;
  std::array<at::Tensor, kStoredWays.size()> values_;
};

}  // namespace pipeline::strategies
