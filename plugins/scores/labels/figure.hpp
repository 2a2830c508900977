// Figures as reports have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <pipeline/task_types.hpp>

#include "plugins/scores/figures/svg.hpp"
#include "plugins/scores/intervals/interval.hpp"

namespace pipeline::labels {

// Sends NAME, and with bounds NAME_low and NAME_high. Returns what a report says: "0.512 [0.431, 0.580]".
inline std::string write_figure(const ReportSink& sink, const std::string& name, uint32_t better,
                                double value, const std::optional<intervals::Interval>& bounds) {
  sink.figure(name, value, better);
  if (!bounds) return figures::decimal(value);
  sink.figure(name + "_low", bounds->low, better);
  sink.figure(name + "_high", bounds->high, better);
  return figures::decimal(value) + " [" + figures::decimal(bounds->low) + ", " +
         figures::decimal(bounds->high) + "]";
}

}  // namespace pipeline::labels
