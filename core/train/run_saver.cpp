#include "core/train/trainer.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"

namespace pipeline::train {
namespace {

constexpr double kLookSeconds = 1;      // between looks at the run's files
constexpr double kCheckSeconds = 0.25;  // between looks at the background writer

}  // namespace

void RunSaver::save(bool final) {
  if (!is_ending_)
    end_if_lost(parts_.session.processes().on_first("looking at the run's files", [this] { return lost(); }));
  parts_.reports.collect_all();
  // The weights are those from before the skipped updates, if not ruined: a checkpoint of them waits for an
  // update, so that it does not push out a good one.
  const auto metric = parts_.validation.metric();
  const bool evaluated = metric && std::isfinite(metric->value);
  is_owed_ = !final && !evaluated && parts_.state.health.skipped() > 0;
  if (is_owed_) return;
  if (const std::string ruined = write_checkpoint(final); !ruined.empty()) end_without_saving({ruined});
}

// Returns what is wrong with the weights, which are not written then; empty: nothing.
std::string RunSaver::write_checkpoint(bool final) {
  const TrainState& now = parts_.state;
  RunActivity& activity = parts_.activity;
  observe::Console& console = parts_.session.log().console();
  activity.begin("saving", fmt::format("saving after step {}", now.step));
  const ProcessGroup::Busy busy(parts_.session.processes());
  if (final || !parts_.session.options().checkpoint.background) console.status({});
  const observe::Elapsed time(console, activity.phase());
  std::vector<std::string> ruined;
  const auto metric = parts_.validation.metric();
  if (!checkpointer_.saved(now.step, metric.has_value())) {
    TrainState state = now;
    state.seconds = activity.elapsed();
    state.unapplied = parts_.reports.unapplied();
    ruined = checkpointer_.save(state, metric, final);
  }
  if (final) checkpointer_.finish();
  return ruined.empty()
             ? ""
             : fmt::format("after step {} weights are not finite: {}", now.step, observe::listed(ruined));
}

void RunSaver::poll() {
  if (now_seconds() - polled_ <= kCheckSeconds) return;
  checkpointer_.poll();
  polled_ = now_seconds();
}

void RunSaver::end_diverged(std::vector<std::string> signs) {
  parts_.reports.collect_all();
  const Health& health = parts_.state.health;
  if (health.skipped() == 0 || health.skips_on_sound_weights())
    if (std::string ruined = write_checkpoint(true); !ruined.empty()) signs.push_back(std::move(ruined));
  end_without_saving(std::move(signs));
}

void RunSaver::end_without_saving(std::vector<std::string> signs) {
  Session& session = parts_.session;
  checkpointer_.finish();
  session.log().console().status({});
  parts_.summarize_unfinished();
  session.processes().on_first("ending the run", [&] {
    Divergence divergence{.health = parts_.state.health, .signs = std::move(signs)};
    checkpointer_.set_aside(parts_.state.step, divergence);
    const std::string text = describe(divergence, session.config(), session.precision().name);
    parts_.folder.mark_diverged(text);
    throw Error(PL_ERROR_CONFIG, text);  // the same again would end so again: it is not restarted
  });
  throw Error(PL_ERROR_PEER, "rank 0 has ended the run");  // which ends this one first
}

std::string RunSaver::lost(bool at_end) const {
  for (const std::string& part : {parts_.folder.lost(), records_->lost(at_end), checkpointer_.lost()})
    if (!part.empty()) return part;
  return "";
}

std::string RunSaver::lost_by_now() {
  if (!parts_.session.processes().is_first() || now_seconds() - looked_ <= kLookSeconds) return "";
  std::string found = lost();
  looked_ = now_seconds();
  return found;
}

void RunSaver::end_if_lost(const std::string& lost) {
  if (lost.empty()) return;
  is_ending_ = true;
  ProcessGroup& processes = parts_.session.processes();
  const std::string place = processes.on_first("looking at the run folder", [this] {
    if (!parts_.folder.is_in_place()) return std::string("no");
    try {
      parts_.folder.lock_again();
    } catch (const Error&) {  // it is being removed right now
      return std::string("no");
    }
    return std::string(checkpointer_.lost().empty() ? "yes" : "without its last checkpoint");
  });
  const bool has_place = place != "no";
  if (place == "without its last checkpoint") checkpointer_.forget_saved();
  if (has_place) save(true);
  parts_.session.log().console().status({});
  if (!processes.is_first()) throw Error(PL_ERROR_PEER, lost);
  const uint64_t step = parts_.state.step;
  throw Error(lost + (has_place
                          ? fmt::format("; step {} was saved, and the same command goes on from it", step)
                          : fmt::format("; the run ends after step {}", step)));
}

}  // namespace pipeline::train
