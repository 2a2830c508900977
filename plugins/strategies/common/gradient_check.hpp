#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <pipeline/parameter.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// The slot that a gradient from the task belongs to; nothing for a parameter without elements. Throws Error
// where it does not fit its parameter, which is named: no such one, frozen, another shape or device.
std::optional<size_t> slot_of(const Gradient& gradient, const std::vector<Parameter>& parameters,
                              const Layout& layout, pl_device device);

}  // namespace pipeline::strategies
