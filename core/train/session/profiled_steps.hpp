// Which steps are recorded in a trace.
#pragma once

#include <cstdint>
#include <optional>

#include "core/config/config.hpp"

namespace pipeline::train {

// Steps, counted from 1; both are recorded.
struct ProfiledSteps {
  uint64_t first = 0, last = 0;
};
// observe.profile; nullopt: off. Throws ConfigError.
std::optional<ProfiledSteps> profiled_steps(const config::Config& config);

}  // namespace pipeline::train
