// What a run is doing at the moment, for errors and for the watch over all ranks, and what its time goes
// into.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/train/session/session.hpp"
#include "core/train/step_reports.hpp"
#include "core/train/telemetry/costs.hpp"
#include "core/train/telemetry/profile.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

// Used from one thread.
class RunActivity {
 public:
  RunActivity(Session& session, const TrainState& state) : session_(session), state_(state) {}

  // `what`: for the watch over all ranks. `phase`: for errors, "training step 12".
  void begin(const char* what, std::string phase);
  const std::string& phase() const { return phase_; }

  // Training begins in this process.
  void start_clock();
  // Seconds of training, with those of earlier launches.
  double elapsed() const;
  // The time since the last call went into `cost`; a profile names it as given, or by what that is.
  void add_time(Cost cost, std::string_view phase = {});
  Costs& costs() { return *costs_; }  // once the clock has started

  void set_profile(std::unique_ptr<Profile> profile) { profile_ = std::move(profile); }
  Profile* profile() { return profile_.get(); }  // nullptr: observe.profile asks for none
  // Writes the profile if one is being recorded. All ranks together.
  void finish_profile(StepReports& reports);

 private:
  Session& session_;
  const TrainState& state_;
  std::string phase_ = "starting";
  double began_ = 0;  // training in this process, monotonic seconds
  std::optional<Costs> costs_;
  std::unique_ptr<Profile> profile_;
};

}  // namespace pipeline::train
