// What a run tells of each step: one line of metrics.jsonl, the console's status line or plain lines, and
// advice.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "core/observe/log.hpp"
#include "core/train/telemetry/records.hpp"
#include "core/train/telemetry/step_record.hpp"

namespace pipeline::train {

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

}  // namespace pipeline::train
