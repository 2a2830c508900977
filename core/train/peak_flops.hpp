#pragma once

#include "core/train/run/session.hpp"

namespace pipeline::train {

// What all devices of the run can do at most, in floating-point operations per second, as the strategy
// measures it with a matrix product in the compute dtype (extension pl.peak-flops/1); 0 where it cannot. The
// denominator of MFU.
double measure_peak_flops(Session& session);

}  // namespace pipeline::train
