// What a configuration says of its stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/config.hpp"

namespace pipeline::train {

// Each stage's own configuration, in order; `whole` itself where there is no [[stage]].
std::vector<config::Config> stages_of(const config::Config& whole);

// PL_PURPOSE_... of stage.kind.
uint32_t purpose_of_stage(const config::Config& stage);

// Where the weights of `stage`, of `whole`, come from: the folder of another stage, a path as the user wrote
// it, or nothing.
std::string init_from(const config::Config& whole, const config::Config& stage);

// Throws ConfigError for stages that cannot do what they are for, so that this shows before anything is
// trained.
void check_stages(const config::Config& whole);

}  // namespace pipeline::train
