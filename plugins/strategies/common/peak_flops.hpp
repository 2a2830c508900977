#pragma once

#include "pipeline.h"

namespace pipeline::strategies {

// The extension pl.peak-flops/1: FLOP/s of one device, the best of a few square matrix products in
// info->compute_dtype and, for float32 on a CPU, of bare multiply-adds in registers. Static.
const pl_peak_flops* peak_flops_extension();

}  // namespace pipeline::strategies
