#include "plugins/strategies/common/gradient_check.hpp"

#include <algorithm>

namespace pipeline::strategies {

std::optional<size_t> slot_of(const Gradient& gradient, const std::vector<Parameter>& parameters,
                              const Layout& layout, pl_device device) {
  if (gradient.index() >= parameters.size()) {
    fail("gradient of parameter ", gradient.index(), " of ", parameters.size());
  }
  const Parameter& parameter = parameters[gradient.index()];
  const pl_tensor& tensor = gradient.tensor();
  const size_t slot = layout.slot_index(gradient.index());
  if (slot >= layout.trainable_slots()) fail("gradient of ", parameter.name, ", which is frozen");
  std::vector<int64_t> expected(parameter.shape.begin(), parameter.shape.end());
  if (gradient.rows() != nullptr) {
    if (expected.empty() || gradient.rows()->ndim != 1)
      fail("gradient of ", parameter.name, ": rows of a shape without rows");
    expected[0] = gradient.rows()->shape[0];
  }
  if (!std::ranges::equal(shape_of(tensor), expected)) {
    fail("gradient of ", parameter.name, " has shape ", name_of(shape_of(tensor)), ", expected ",
         name_of(expected));
  }
  if (parameter.count() == 0) return std::nullopt;
  if (!same(tensor.device, device)) {
    fail("gradient of ", parameter.name, " is on ", name_of(tensor.device), ", expected ", name_of(device));
  }
  return slot;
}

}  // namespace pipeline::strategies
