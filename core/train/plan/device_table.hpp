// Devices that a run can be planned for without having them: their data sheets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/launch/devices.hpp"

namespace pipeline::train {

struct DeviceFigures {
  std::string name;                 // as after --device
  launch::CudaDevice is;            // memory, compute capability
  double peak_16 = 0, peak_32 = 0;  // FLOP/s of dense matrix products with 16-bit and 32-bit inputs
  double link = 0;                  // bytes a second that a device sends in a ring over all of one host
};

// Shares and sizes that no data sheet has.
inline constexpr double kUtilisation = 0.4;                      // of the peak that training reaches
inline constexpr uint64_t kDeviceContext = uint64_t{800} << 20;  // CUDA's context and libraries' workspaces

// Upper and lower case, spaces and dashes do not matter. Throws Error that lists the names there are.
DeviceFigures device_figures(std::string_view name);

}  // namespace pipeline::train
