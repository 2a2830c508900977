// `train.precision` on a device: which dtype parameters and products have. The same for every strategy.
#pragma once

#include <string>
#include <string_view>

#include "core/config/config.hpp"
#include "core/launch/devices.hpp"

namespace pipeline::train {

struct Precision {
  std::string name;  // fp32, bf16, fp16
  pl_dtype parameter{};
  pl_dtype compute{};
  bool loss_scaling = false;  // fp16
};

inline constexpr pl_dtype kFloat32{PL_DTYPE_FLOAT, 32, 1};
inline constexpr pl_dtype kFloat16{PL_DTYPE_FLOAT, 16, 1};
inline constexpr pl_dtype kBFloat16{PL_DTYPE_BFLOAT, 16, 1};

// `auto`: bf16 where the device computes in it, else fp16; fp32 on CPU. Throws ConfigError for what the device cannot do.
Precision choose_precision(const config::Config& config, pl_device device, const launch::Devices& devices);

std::string_view dtype_name(pl_dtype dtype);  // "fp32"

}  // namespace pipeline::train
