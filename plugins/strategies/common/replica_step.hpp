#pragma once

#include <pipeline.h>

#include "plugins/strategies/common/reduction.hpp"
#include "plugins/strategies/common/replica.hpp"
#include "plugins/strategies/common/report_queue.hpp"

namespace pipeline::strategies {

// The end of a step where every rank holds all sums: norm, clipping or skipping, update, report. Returns the
// report's ticket. fixed_order: the norm's bits must not depend on the device's fastest order.
uint64_t finish_step(Replica& replica, const StepSums& sums, const pl_step_args& args, bool fixed_order,
                     ReportQueue& reports);

}  // namespace pipeline::strategies
