#include "plugins/strategies/common/extensions.hpp"

#include <pipeline/torch/profiler.hpp>

#include "plugins/strategies/common/peak_flops.hpp"

namespace pipeline::strategies {

const void* extension_named(std::string_view id) {
  static const pl_runtime runtime = [] {
    pl_runtime all = *runtime_extension();
    all.peak_flops = measure_peak_flops;
    return all;
  }();
  return id == PL_EXTENSION_RUNTIME ? &runtime : nullptr;
}

}  // namespace pipeline::strategies
