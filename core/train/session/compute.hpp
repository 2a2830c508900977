// What a process computes with: its device, its precision, its threads, and what LibTorch and its libraries
// read of that from the environment.
#pragma once

#include <string>

#include "core/base/world.hpp"
#include "core/config/config.hpp"
#include "core/launch/devices.hpp"
#include "core/observe/log.hpp"

namespace pipeline::train {

// run.device for this process. Throws ConfigError where there is none for it.
pl_device choose_device(const config::Config& config, const launch::Devices& devices, const World& world,
                        observe::Log& log);

// `train.precision` on a device: which dtype parameters and products have. The same for every strategy.
struct Precision {
  std::string name;  // fp32, bf16, fp16
  pl_dtype parameter{};
  pl_dtype compute{};
  bool loss_scaling = false;  // fp16
};

// `auto`: bf16 where the device computes in it, else fp16; fp32 on CPU. Throws ConfigError for what the
// device cannot do.
Precision choose_precision(const config::Config& config, pl_device device, const launch::Devices& devices);

// The threads that one of `sharing` processes on this host computes with.
unsigned compute_threads(const config::Config& config, const launch::Devices& devices, unsigned sharing);

// Sets the environment of this process, before a plugin is loaded: LibTorch and its libraries read it once.
// What the user has set is kept, save the number of threads.
void set_environment(const config::Config& config, unsigned sharing);

}  // namespace pipeline::train
