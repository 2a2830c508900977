#pragma once

#include <string_view>

#include "pipeline.h"

namespace pipeline::strategies {

// The table of an extension that all strategies have, or null. Static.
const void* extension_named(std::string_view id);

// pl_runtime.peak_flops: FLOP/s of one device, the best of a few square matrix products in
// info->compute_dtype and, for float32 on a CPU, of bare multiply-adds in registers.
pl_error* measure_peak_flops(const pl_host* host, const pl_run_info* info, double* out);

}  // namespace pipeline::strategies
