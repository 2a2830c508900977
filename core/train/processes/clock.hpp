// By how much the clocks of the hosts of a run differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/train/processes/process_group.hpp"

namespace pipeline::train {

// Nanoseconds since 1970, as this host's clock has it.
int64_t clock_nanoseconds();

struct ClockOffset {
  int64_t nanoseconds = 0;  // to add to this rank's clock to get rank 0's
  int64_t error = 0;        // at most; 0: it is the same clock
};

// Which machine's clock this process reads.
std::string this_machine();

// Ranks on rank 0's machine share its clock; each of the others asks rank 0 for the time and takes the
// fastest of a few answers. nullopt: rank 0 did not answer. All ranks together.
std::optional<ClockOffset> compare_clocks(ProcessGroup& processes, const std::string& machine);

}  // namespace pipeline::train
