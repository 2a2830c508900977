// What the ranks tell each other about a step, besides gradients. Sums are made in the order of the
// micro-batches, so that they have the same bits on any number of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/train/processes/process_group.hpp"
#include "core/train/session/metrics.hpp"

namespace pipeline::train {

// What is known of one micro-batch when it is loaded.
struct MicroBatchFacts {
  uint64_t index = 0;  // in the global batch
  double weight = 0;
  uint64_t samples = 0, tokens = 0, positions = 0;
  std::optional<double> flops;
};

struct StepFacts {
  double weight = 0;
  std::vector<uint64_t> samples;  // of each micro-batch of the global batch, up to the last that has any
  uint64_t tokens = 0, positions = 0;
  std::optional<double> flops;  // nullopt: not known of all micro-batches
};

// The sums over all ranks' micro-batches.
StepFacts sum_over_ranks(ProcessGroup& processes, std::span<const MicroBatchFacts> mine);

// What one rank sees between two steps, and what all make of it.
struct Boundary {
  int signal = 0;                       // of any rank, the lowest first
  bool time_is_up = false;              // by rank 0's clock
  bool save = false;                    // by rank 0's clock
  std::string lost;                     // of the run's files, as rank 0 sees it
  double data_wait = 0;                 // seconds in the last step, of the rank that waited longest
  std::vector<MetricSum> metrics;       // of the last step, over all ranks
  bool has_late = false;                // metrics of the last step that are still on a device, of any rank
  std::vector<MetricSum> late_metrics;  // of the step before that, over all ranks
};

Boundary agree(ProcessGroup& processes, const Boundary& mine);

// The metrics of all ranks.
std::vector<MetricSum> add_up(ProcessGroup& processes, const std::vector<MetricSum>& mine);

}  // namespace pipeline::train
