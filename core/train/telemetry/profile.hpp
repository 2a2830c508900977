// observe.profile: a trace of a few optimizer steps, RUN/profile/trace.json. Operations and kernels come from
// the plugins' library (pl.runtime/1), phases and collectives from here. Nothing that goes wrong with it
// ends the run.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/observe/trace.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/schedule.hpp"
#include "core/train/session/session.hpp"
#include "core/train/telemetry/costs.hpp"

namespace pipeline::train {

// What a Cost is called in a trace.
inline constexpr std::array<std::string_view, kCostNames.size()> kPhaseNames{
    "waiting for data", "waiting for ranks",      "forward and backward", "optimizer",
    "collectives",      "waiting for the device", "evaluation",           "checkpoint"};

// Used from the thread that trains. Must go before the session.
class Profile {
 public:
  // `next_step`, `total_steps` (0: no end): of the run, to say so if these steps are not among them.
  Profile(Session& session, const RunFolder& folder, ProfiledSteps steps, uint64_t next_step,
          uint64_t total_steps);
  // What was recorded and not finished is dropped.
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Begins to record if it is time.
  void before_step(uint64_t step);
  void after_step(uint64_t step);
  // The time since the last call was this phase of a step.
  void add_time(std::string_view phase);
  // Whether finish() is due.
  bool is_over() const { return recording_ && steps_done_ > 0 && last_done_ == steps_.last; }
  bool is_recording() const { return recording_; }
  // The run ended after `step`: a warning, unless it was given before, if that is before all steps to record.
  void end(uint64_t step);
  // Ends the recording, writes the files and, on rank 0, prints what was found. All ranks together.
  void finish();

 private:
  struct Report;

  void warn_if_before_all(uint64_t last);
  void start();
  void start_operations();
  // Leaves in problems_ what went wrong, as add_collectives() does.
  void stop_operations(const std::filesystem::path& to);
  void add_collectives();
  void add_collectives(plugins::Communicator& group);
  template <class Work>
  void attempt(std::string_view what, Work&& work);
  void print(const std::vector<Report>& ranks);
  void merge(const std::vector<Report>& ranks);
  std::filesystem::path file_of(int32_t rank) const;

  Session& session_;
  const std::filesystem::path folder_;
  const ProfiledSteps steps_;
  const std::string setting_;
  bool has_warned_ = false;
  bool recording_ = false;
  const plugins::Plugin* profiler_ = nullptr;  // whose profiler runs
  std::vector<observe::TraceEvent> events_;
  std::vector<std::string> problems_;
  int64_t began_ = 0, steps_began_ = 0, step_began_ = 0, phase_began_ = 0;  // nanoseconds since 1970
  int64_t seconds_ = 0;  // nanoseconds, of the steps so far
  uint64_t steps_done_ = 0, last_done_ = 0;
};

}  // namespace pipeline::train
