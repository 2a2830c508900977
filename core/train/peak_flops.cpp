#include "core/train/peak_flops.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/host.hpp"

namespace pipeline::train {

double measure_peak_flops(Session& session) {
  const auto* extension =
      static_cast<const pl_peak_flops*>(session.strategy_plugin().query(PL_EXTENSION_PEAK_FLOPS));
  if (extension == nullptr || !PL_HAS(pl_peak_flops, extension, measure)) return 0;
  double per_device = 0;
  const plugins::Plugin& plugin = session.strategy_plugin();
  try {
    check(plugins::contain(plugin, "measure", [&] {
      return extension->measure(&plugins::host_table(), &session.run_info(), &per_device);
    }));
  } catch (const Error& error) {
    session.log().warning(
        fmt::format("no MFU: the peak could not be measured: {}: {}", plugin.label(), error.what()));
    return 0;
  }
  session.log().info(
      fmt::format("{:<11}{:.3g} GFLOP/s per device, measured; MFU is the task's FLOPs a second against that",
                  "peak", per_device / 1e9));
  return per_device * session.run_info().world_size;
}

}  // namespace pipeline::train
