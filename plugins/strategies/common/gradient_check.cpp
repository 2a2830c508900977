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
  if (!std::ranges::equal(shape_of(tensor), parameter.shape)) {
    fail("gradient of ", parameter.name, " has shape ", name_of(shape_of(tensor)), ", expected ",
         name_of(parameter.shape));
  }
  if (parameter.count() == 0) return std::nullopt;
  if (!same(tensor.device, device)) {
    fail("gradient of ", parameter.name, " is on ", name_of(tensor.device), ", expected ", name_of(device));
  }
  return slot;
}

}  // namespace pipeline::strategies
