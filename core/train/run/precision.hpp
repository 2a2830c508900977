// `train.precision` on a device: which dtype parameters and products have. The same for every strategy.
#pragma once

#include <string>

#include "core/config/config.hpp"
#include "core/launch/devices.hpp"

namespace pipeline::train {

struct Precision {
  std::string name;  // fp32, bf16, fp16
  pl_dtype parameter{};
  pl_dtype compute{};
  bool loss_scaling = false;  // fp16
};

// `auto`: bf16 where the device computes in it, else fp16; fp32 on CPU. Throws ConfigError for what the
// device cannot do.
Precision choose_precision(const config::Config& config, pl_device device, const launch::Devices& devices);

}  // namespace pipeline::train
