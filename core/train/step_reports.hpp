// The report of an optimizer step comes late, so that nobody waits for the device: loss and gradient norm are
// collected during the next step, and what tasks report from the devices of other ranks one boundary after
// that.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/train/processes/process_group.hpp"
#include "core/train/session/metrics.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

// What the ranks tell each other about a step, besides gradients. Sums are made in the order of the
// micro-batches, so that they have the same bits on any number of processes.

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

// A step that the strategy has taken.
struct TakenStep {
  uint64_t ticket = 0;           // for the strategy's report
  double weight = 0;             // of the global batch
  double began = 0;              // monotonic seconds
  double data_wait = 0;          // seconds of this rank
  std::vector<LateMetric> late;  // this rank's metrics on the device
  StepRecord record;             // what is known of the step so far
};

// Each step's report, once and in order. All ranks make the same calls. Used from one thread.
class StepReports {
 public:
  // Where reports come from and go to.
  struct Ends {
    // The strategy's report; waits for the device.
    std::function<pl_step_report(uint64_t ticket)> collect;
    // The values of a step's metrics, once its report is collected.
    std::function<std::vector<MetricSum>(const std::vector<LateMetric>& late)> read;
    // The metrics of all ranks; all of them together.
    std::function<std::vector<MetricSum>(const std::vector<MetricSum>& mine)> add_up;
    // Is told of a step when it is collected, and again when its metrics are complete.
    std::function<void(const StepRecord&record)> collected, complete;
  };

  explicit StepReports(Ends ends) : ends_(std::move(ends)) {}

  // For a run that goes on: what unapplied() was.
  void resume(std::optional<bool> unapplied) { unapplied_ = unapplied; }

  // The next step begins, so the last one has ended. `now`: monotonic seconds.
  void next_step_begins(double now);
  // The strategy has taken `step`: collects the one before. `scale` learns of that one now, whenever it was
  // collected, so that a run which is saved in between goes on with the same scale.
  void take(TakenStep step, LossScale& scale);
  // Leaves no step without its report, before something else is done. All ranks together.
  void collect_all();

  // At the boundary after a step: what this rank has to say of it and of the one before, and what all had.
  void tell(Boundary& mine) const;
  void hear(const Boundary& all);

  // Is the last step still to be collected?
  bool pending() const { return pending_.has_value(); }
  // Was the last step finite, if it is collected? For the loss scale, which does not know it yet.
  std::optional<bool> unapplied() const { return unapplied_; }

 private:
  struct Pending {
    TakenStep step;
    bool any_late = false;  // has any rank late metrics?
  };
  // A step that was collected, but for what other ranks' devices had to say of it.
  struct Collected {
    StepRecord record;
    std::vector<MetricSum> late;  // of this rank
  };

  void collect();
  void finish(const std::vector<MetricSum>& late);

  const Ends ends_;
  std::optional<Pending> pending_;
  std::optional<Collected> collected_;
  std::optional<bool> unapplied_;
};

}  // namespace pipeline::train
