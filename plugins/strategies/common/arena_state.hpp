#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include <pipeline/parameter.hpp>
#include <pipeline/state.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// One kind of state over a part of the arena: `values` are its elements from `begin` on.
struct ArenaPart {
  std::string kind;
  int64_t begin;
  at::Tensor values;  // one-dimensional
};

// A float32 copy in ordinary host memory of what is on a device. Directly that goes at a fraction of the
// bus's speed; here two pieces of pinned memory of at most `piece` elements are filled and emptied in turns.
inline constexpr int64_t kStagedElements = int64_t{1} << 23;
at::Tensor staged_copy(const at::Tensor& values, int64_t piece);

// The arena as the outside sees it: pieces of named tensors, always in float32.
class ArenaState {
 public:
  ArenaState(std::shared_ptr<const Layout> layout, const std::vector<Parameter>& parameters);

  // `parts` and the step count as a snapshot; undefined: another rank has the count. copy: later changes do
  // not show; otherwise, where the parts are in host memory and float32, the snapshot looks at them.
  std::unique_ptr<Snapshot> snapshot(std::vector<ArenaPart> parts, const at::Tensor& step_count,
                                     bool copy) const;

  // Fills `part` from the reader. Padding is left as it is.
  void read(const StateReader& reader, const ArenaPart& part) const;
  static int64_t read_step_count(const StateReader& reader);

 private:
  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<const std::vector<Parameter>> parameters_;
};

}  // namespace pipeline::strategies
