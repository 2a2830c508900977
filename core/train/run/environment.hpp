// What LibTorch and its libraries read from the environment, once, when they are loaded.
#pragma once

#include "core/config/config.hpp"
#include "core/launch/devices.hpp"

namespace pipeline::train {

// The threads that one of `sharing` processes on this host computes with.
unsigned compute_threads(const config::Config& config, const launch::Devices& devices, unsigned sharing);

// For this process, before a plugin is loaded; what the user has set is kept, save the number of threads.
void set_environment(const config::Config& config, unsigned sharing);

}  // namespace pipeline::train
