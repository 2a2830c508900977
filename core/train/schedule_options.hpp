// The length of a run and its learning rate as the configuration gives them.
#pragma once

#include "core/config/config.hpp"
#include "core/train/schedule.hpp"

namespace pipeline::train {

// Throws ConfigError where nothing says when training ends, or the schedule lacks something. Needs no data.
void check_schedule(const config::Config& config);

// `total_steps`: 0 where only train.max_seconds ends the run.
Schedule make_schedule(const config::Config& config, uint64_t global_batch, uint64_t total_steps);

}  // namespace pipeline::train
