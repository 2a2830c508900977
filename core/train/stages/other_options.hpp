#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"

namespace pipeline::train {

// The options that are not what they were when a stage without training was made, with both values. Those
// that its result does not depend on do not count: what training alone reads, such as [optimizer], what is
// observed, where the run's folder is, and how a path in it begins. `stored_toml`: what the stage was made
// with; `now`, `plugins`: what it would be made with.
std::vector<std::string> other_options(std::string_view stored_toml, const config::Config& now,
                                       std::span<const config::PluginConfig* const> plugins);

}  // namespace pipeline::train
