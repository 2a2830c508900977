#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include <pipeline/communicator.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Parts of gradients that arrived as rows after the rest had been sent: for an embedding that is also the
// output head, the part from the token look-ups.
class LateRows {
 public:
  // The sum for one slot: rows (U) int64, ascending and unique; values (U, width) float32; on the CPU.
  struct Sum {
    size_t slot;
    at::Tensor rows;
    at::Tensor values;

    // Adds the matching values to `elements`, the slot's flattened elements from `begin` on, which may
    // begin and end within rows.
    void add_to(const at::Tensor& elements, int64_t begin) const;
  };

  explicit LateRows(std::shared_ptr<const Layout> layout) : layout_(std::move(layout)) {}

  // Copies `values`, (K, ...) of any float dtype, to add to the rows `rows`, (K) int64; rows may repeat.
  void add(size_t slot, const at::Tensor& rows, const at::Tensor& values);
  bool empty() const { return parts_.empty(); }
  void clear() { parts_.clear(); }

  // Moves a slot's rows to `sum`, where they are no longer late.
  void move_to(GradientSum& sum, size_t slot);

  // Returns the sums over all ranks and empties this object. All ranks call it together, even those without
  // rows. Only rows to which some rank adds are sent. `group`: null for one rank.
  std::vector<Sum> finish(const Communicator* group, at::Device device);

 private:
  struct Part {
    size_t slot;
    at::Tensor rows;
    at::Tensor values;  // (K, width) float32
  };

  Sum sum_of(size_t slot, int64_t width, const Communicator* group, at::Device device) const;

  std::shared_ptr<const Layout> layout_;
  std::vector<Part> parts_;
};

}  // namespace pipeline::strategies
