#include "core/train/run_activity.hpp"

#include <utility>

#include "core/base/monotonic_clock.hpp"

namespace pipeline::train {

void RunActivity::begin(const char* what, std::string phase) {
  phase_ = std::move(phase);
  session_.processes().at(what, state_.step + 1);
}

void RunActivity::start_clock() {
  began_ = now_seconds();
  costs_.emplace(session_.groups());
}

double RunActivity::elapsed() const { return state_.seconds + now_seconds() - began_; }

void RunActivity::add_time(Cost cost, std::string_view phase) {
  costs_->add_time(cost);
  if (profile_) profile_->add_time(phase.empty() ? kPhaseNames[static_cast<size_t>(cost)] : phase);
}

void RunActivity::finish_profile(StepReports& reports) {
  if (!profile_ || !profile_->is_recording()) return;
  reports.collect_all();
  begin("writing the profile", "writing the profile");
  const ProcessGroup::Busy busy(session_.processes());
  profile_->finish();
  add_time(Cost::checkpoint);  // files, too
}

}  // namespace pipeline::train
