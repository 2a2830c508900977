// What a run would take, before it is started: memory, communication, time. Measured where one process can
// measure it, by a few real micro-batches; by the strategies' own word and by formulas for the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/world.hpp"
#include "core/train/data/batch_plan.hpp"
#include "core/train/plan/device_table.hpp"
#include "core/train/stages/stages.hpp"
#include "core/train/telemetry/costs.hpp"

namespace pipeline::train {

struct PlanArgs {
  World world;                          // that is planned for
  std::optional<DeviceFigures> device;  // instead of this machine's
};

// The memory of one rank, in bytes.
struct PlannedMemory {
  uint64_t base = 0;  // the process with its libraries and data; on a device its context
  StrategyMemory strategy;
  uint64_t activations = 0;
  uint64_t checkpoint = 0;  // the copy that is written in the background

  uint64_t peak() const {
    return base + strategy.lasting() + strategy.in_a_step() + activations + checkpoint;
  }
};

struct PlannedRun {
  std::string strategy;     // "sharded:2"
  bool configured = false;  // the run would use it
  BatchPlan batch;          // and in it the number of processes
  PlannedMemory memory;
  std::optional<uint64_t> largest_micro_batch;  // nullopt: not even one sample fits
  std::optional<double> bytes_sent;             // by each process in a step; nullopt: not known
  std::optional<double> step_seconds;
  std::string problem;  // why it cannot be used; all else is then empty
};

struct Plan {
  std::string task, stage, device, precision;  // stage: empty without [[stage]]
  std::string measured_on, measured_precision;
  std::optional<DeviceFigures> assumed;  // the device that is planned for and was not measured
  uint64_t parameters = 0, trainable = 0, samples = 0;
  uint64_t steps = 0, steps_per_epoch = 0;  // steps 0: until max_seconds
  double max_seconds = 0;                   // 0: no limit
  bool finds_micro_batch = false;           // train.micro_batch is "auto": each run has its largest one
  uint64_t memory_limit = 0;                // of each process; without what a run that finds it leaves free
  bool shares_cores = false;                // the processes of a host compute on the same cores
  // The memory of one micro-batch of `measured_samples`, on this machine.
  uint64_t measured_samples = 0, measured_base = 0, measured_activations = 0, activations_per_sample = 0;
  bool peak_was_measured = true;  // false: the system did not let the process's peak begin anew
  double pass_seconds = 0, update_seconds = 0;
  std::optional<double> flops;  // of the task, forward and backward
  std::vector<PlannedRun> runs;
};

// Works in this process, which trains on the training data at a learning rate of 0 and leaves nothing behind.
Outcome make_plan(const Workspace& workspace, const PlanArgs& args, Plan& plan);

nlohmann::ordered_json to_json(const Plan& plan);

// The largest micro-batch whose peak is within `limit`, of those that the batch can be cut into; nullopt
// where there is none. `activations` of a micro-batch grow by `per_sample`.
std::optional<uint64_t> largest_micro_batch(const PlannedMemory& memory, const BatchPlan& batch,
                                            uint64_t per_sample, uint64_t limit);

}  // namespace pipeline::train
