#include "core/train/peak_flops.hpp"

#include <fmt/format.h>

#include "core/plugins/error.hpp"
#include "core/plugins/host.hpp"

namespace pipeline::train {

double measure_peak_flops(Session& session) {
  const auto* extension = static_cast<const pl_peak_flops*>(session.strategy_plugin().query(PL_EXTENSION_PEAK_FLOPS));
  if (extension == nullptr || !PL_HAS(pl_peak_flops, extension, measure)) return 0;
  double per_device = 0;
  check(extension->measure(&plugins::host_table(), &session.run_info(), &per_device));
  session.log().info(fmt::format("{:<11}{:.3g} GFLOP/s per device, measured; MFU is the task's FLOPs a second against that", "peak",
                                 per_device / 1e9));
  return per_device * session.run_info().world_size;
}

}  // namespace pipeline::train
