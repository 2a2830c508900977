// What a run tells of each step: one line of metrics.jsonl, the console's status line or plain lines, and
// advice.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/observe/event_file.hpp"
#include "core/observe/json_lines.hpp"
#include "core/observe/log.hpp"
#include "core/observe/tracker.hpp"
#include "core/train/session/metrics.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/schedule.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// What a run records of its steps and evaluations: metrics.jsonl and eval.jsonl, and beside them what
// observe.* asks for. On rank 0; used from one thread.
struct RecordOptions {
  uint64_t first_step = 1;  // TensorBoard drops what it has of it and of later steps
  bool tensorboard = false;
  std::vector<std::unique_ptr<observe::Tracker>> trackers;
};

class Records {
 public:
  // The .jsonl files go on where they end.
  Records(observe::Log& log, const RunFolder& folder, RecordOptions options);

  // A line of metrics.jsonl and of eval.jsonl: figures by name, and the step.
  void step(const nlohmann::ordered_json& line);
  void evaluation(const nlohmann::ordered_json& line);
  // Which of its files are not there any more, or, at the end, have not taken all; empty: none.
  std::string lost(bool at_end) const;
  // The run ends here, by itself or by a signal, after which it must not wait long: this waits a while for
  // what is still to be uploaded.
  void finish(bool by_signal);

 private:
  template <class File>
  void append(const char* name, File& file, const auto&... record);

  observe::Log& log_;
  std::vector<std::unique_ptr<observe::Tracker>> trackers_;
  observe::JsonLines steps_, evaluations_;
  std::optional<observe::EventFile> events_;
  std::set<std::string> failed_;  // names of those that could not be written the last time
};

// Opens the records that the session's configuration asks for, without earlier ones of `first_step` and later
// steps, which are made again. Throws ConfigError where a tracker cannot be had, unless the run is continued:
// then it goes on without, and the next launch logs what is missing. `goes_on`: earlier records must be
// there, or a warning says that they are lost.
std::unique_ptr<Records> open_records(const Session& session, const RunFolder& folder, uint64_t first_step,
                                      bool goes_on);

// Memory in bytes: of this process on the host, at its peak, and of the device now, 0 where there is none.
struct MemoryUse {
  uint64_t host = 0, device = 0;
};

class Reporter {
 public:
  struct Options {
    uint64_t total_steps = 0;  // 0: unknown
    double max_seconds = 0;    // 0: none
    uint64_t every = 10;       // plain lines, in steps
    double peak_flops = 0;     // of all devices, as measured; 0: unknown, MFU is left out
    bool dynamic_loss_scale = false;
    std::vector<std::string> losses = {};  // figures of the task that are shown beside their sum
  };

  // `records` gets a line for every step.
  Reporter(observe::Log& log, Records& records, Options options);

  void step(const StepRecord& record, double elapsed_seconds, MemoryUse memory);

 private:
  void raise_peak(const StepRecord& record);
  void write(const StepRecord& record, MemoryUse memory);
  std::string line(const StepRecord& record, double elapsed_seconds, MemoryUse memory) const;
  void advise(const StepRecord& record);

  observe::Log& log_;
  const Options options_;
  Records& records_;
  double peak_flops_;  // the measured peak, or the best step where that was faster: no share is above 1
  bool peak_raised_ = false;
  std::deque<StepRecord> recent_;  // for rates
  uint64_t seen_ = 0;
  double waited_ = 0, worked_ = 0;  // seconds, for the advice
  bool advised_ = false;
};

// What a run or a verb says of itself before it works.

// The lines "device" and "processes": where the session works.
void announce_place(const Session& session);

// What options follow from a model that another tool or run has made: a line for each.
void announce_model_options(const Session& session);

// Logs a warning for each setting that training as configured makes no use of. No error: it may be inherited
// through `extends`.
void warn_of_unused_options(const Session& session);
// Names the parameters that have had no gradient in the `steps` steps since the session was bound. Each rank
// knows its own.
void warn_of_unused_parameters(Session& session, uint64_t steps);

// All that a run that trains says: what it is made of, how long it will be, from which `weights` it begins.
void announce_training(Session& session, const Schedule& schedule, uint64_t steps_per_epoch,
                       const std::string& weights);

// What all devices of the run can do at most, in floating-point operations per second, as the strategy
// measures it with a matrix product in the compute dtype (pl_runtime.peak_flops); 0 where it cannot. The
// denominator of MFU.
double measure_peak_flops(Session& session);

std::string model_json(Session& session);

// What the run is made of: {"task", "strategy", "backend", "device", "processes", "precision", "parameters",
// "trainable_parameters"}.
nlohmann::ordered_json describe_run(Session& session);

}  // namespace pipeline::train
