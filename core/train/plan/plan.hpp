// What a run would take, before it is started: memory, communication, time. Measured where one process can
// measure it, by a few real micro-batches; by the strategies' own word and by formulas for the rest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/world.hpp"
#include "core/config/config.hpp"
#include "core/launch/devices.hpp"
#include "core/plugins/registry.hpp"
#include "core/train/data/batch_plan.hpp"
#include "core/train/session/session.hpp"
#include "core/train/stages/stages.hpp"
#include "core/train/telemetry/costs.hpp"

namespace pipeline::train {

// Devices that a run can be planned for without having them: their data sheets.
struct DeviceFigures {
  std::string name;                 // as after --device
  launch::CudaDevice is;            // memory, compute capability
  double peak_16 = 0, peak_32 = 0;  // FLOP/s of dense matrix products with 16-bit and 32-bit inputs
  double link = 0;                  // bytes a second that a device sends in a ring over all of one host
};

// Shares and sizes that no data sheet has.
inline constexpr double kUtilisation = 0.4;                      // of the peak that training reaches
inline constexpr uint64_t kDeviceContext = uint64_t{800} << 20;  // CUDA's context and libraries' workspaces

// Upper and lower case, spaces and dashes do not matter. Throws Error that lists the names there are.
DeviceFigures device_figures(std::string_view name);

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

// What a strategy says of itself in a world of processes that are not there.
struct PlannedStrategy {
  StrategyMemory memory;          // of rank 0
  uint64_t checkpoint_bytes = 0;  // that rank 0 writes
  uint32_t reduction_bits = 32;   // of an element of a gradient that is sent
  uint64_t shard_group = 0;       // processes that hold one copy in shards; 0: all
};

struct StrategyQuestion {
  std::string plugin;                 // "sharded"
  std::optional<int64_t> zero_stage;  // strategy.zero_stage
  BatchPlan batch;                    // and in it the number of processes
  pl_dtype dtype{};                   // of parameters and products
};

// Creates the strategy for the parameters of the session's task, with the session's [strategy] options where
// it is the session's own, and asks it. It allocates what it would in a run, for as long as it is asked.
// Throws Error where it cannot do what is planned.
PlannedStrategy ask_strategy(Session& session, plugins::Registry& registry, const StrategyQuestion& question);

// Bytes that each process sends in a step with `micro_batches` of its own, by plugins/strategies/README.md;
// nullopt for a strategy that it does not know.
std::optional<double> bytes_sent(const StrategyQuestion& question, const PlannedStrategy& strategy,
                                 uint64_t trainable_parameters);

// A session that trains as a configuration says, in this process alone, and leaves nothing behind: for
// `plan` and `find-lr`.

// The stage that is tried: the first of those of the command line that trains; `whole` itself where there is
// no [[stage]].
config::Config trial_stage(const config::Config& whole);

// A folder for temporary files, removed with this object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Takes a new session of `stage` so far that it can work, with the weights that a run would begin with.
// `scratch`: its run folder.
void open_for_trial(Session& session, const config::Config& whole, const config::Config& stage,
                    const ScratchFolder& scratch);

}  // namespace pipeline::train
