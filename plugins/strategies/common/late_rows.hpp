#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include <pipeline/communicator.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Parts of gradients that came as rows after the rest had been sent: what an embedding that is also the
// output head gets from the tokens that were looked up.
class LateRows {
 public:
  // Of a slot; rows ascending (U) int64, each once, values (U, width) float32; on the CPU.
  struct Sum {
    size_t slot;
    at::Tensor rows;
    at::Tensor values;

    // Adds to `elements`, flat, what belongs there: they are those of the slot from `begin` on, and may begin
    // and end within rows.
    void add_to(const at::Tensor& elements, int64_t begin) const;
  };

  explicit LateRows(std::shared_ptr<const Layout> layout) : layout_(std::move(layout)) {}

  // values (K, ...) of any float dtype, to be added to the rows (K) int64, the same perhaps several times;
  // copied.
  void add(size_t slot, const at::Tensor& rows, const at::Tensor& values);
  bool empty() const { return parts_.empty(); }
  void clear() { parts_.clear(); }

  // What came of a slot goes to `sum`; it is no longer late then.
  void move_to(GradientSum& sum, size_t slot);

  // The sums over all ranks; empties this object. All ranks together, though some may have nothing. Those
  // rows travel that any rank has something for. `group`: null for one rank.
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
