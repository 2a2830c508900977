#include "core/train/telemetry/records.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/train/processes/signals.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kUploadLimit(30), kUploadLimitAfterSignal(2);

// Steps that are done again are recorded again.
void cut_back(observe::Log& log, const RunFolder& folder, uint64_t first_step) {
  for (const auto& file : {folder.metrics(), folder.evaluations()})
    if (const uint64_t broken = observe::JsonLines::cut_back(file, "step", first_step); broken > 0)
      log.warning(fmt::format("{}: {} unreadable line{} {} dropped: cut short by a kill, or damaged",
                              file.string(), broken, broken == 1 ? "" : "s", broken == 1 ? "was" : "were"));
}

observe::Tracker::Options tracker_options(const observe::Tracker::Service& service, const Session& session,
                                          const RunFolder& folder, bool continued) {
  const config::Config& config = session.config();
  const fs::path path = fs::absolute(folder.path()).lexically_normal();
  const config::ObserveOptions& observe = config.options().observe;
  const bool is_stage = !config.options().stage.name.empty(),
             is_mlflow = &service == &observe::Tracker::kMlflow;
  observe::Tracker::Options options{
      .service = &service,
      .folder = folder.path(),
      .uri = is_mlflow ? observe.mlflow_uri : "",
      .project = is_mlflow ? observe.mlflow_experiment : observe.wandb_project,
      .name = (is_stage ? path.parent_path().filename() / path.filename() : path.filename()).string(),
      .continued = continued,
      .config = nlohmann::ordered_json::object(),
      .cancelled = [] { return Signals::received() != 0; }};
  for (const auto& [key, value] : config::stored_values(session.resolved_toml())) {
    const auto json = nlohmann::ordered_json::parse(value, nullptr, false);
    options.config[key] = json.is_discarded() ? nlohmann::ordered_json(value) : json;
  }
  return options;
}

}  // namespace

Records::Records(observe::Log& log, const RunFolder& folder, RecordOptions options)
    : log_(log),
      trackers_(std::move(options.trackers)),
      steps_(folder.metrics()),
      evaluations_(folder.evaluations()) {
  if (options.tensorboard) events_.emplace(folder.path(), options.first_step);
}

template <class File>
void Records::append(const char* name, File& file, const auto&... record) {
  if (file.append(record...)) {
    if (failed_.erase(name) > 0) log_.info(fmt::format("{} is written again, nothing was lost", name));
  } else if (failed_.insert(name).second) {
    log_.warning(fmt::format("{} cannot be written: {}; lines are kept in memory until it can", name,
                             std::strerror(file.last_error())));
  }
}

void Records::step(const nlohmann::ordered_json& line) {
  append("metrics.jsonl", steps_, line);
  if (events_) append("TensorBoard's file", *events_, "train", line);
  std::erase_if(trackers_, [&](const auto& tracker) {
    if (!tracker->died()) return false;
    log_.warning(fmt::format("the client of {} has ended, and the run goes on without it: see {}",
                             tracker->service().name, tracker->log().string()));
    return true;
  });
}

void Records::evaluation(const nlohmann::ordered_json& line) {
  append("eval.jsonl", evaluations_, line);
  if (events_) append("TensorBoard's file", *events_, "eval", line);
}

std::string Records::lost(bool at_end) const {
  for (const observe::JsonLines* const lines : {&steps_, &evaluations_}) {
    const std::string file = lines->file().path().string();
    if (!lines->file().is_still_there())
      return fmt::format(
          "{}: was removed or replaced while the run writes it: what it had of the steps so far is lost",
          file);
    if (at_end && lines->pending() > 0)
      return fmt::format("{}: {} lines could not be written: {}", file, lines->pending(),
                         std::strerror(lines->last_error()));
  }
  return "";
}

void Records::finish(bool by_signal) {
  for (const auto& tracker : trackers_) tracker->say_end(!by_signal);  // all, before one is waited for
  for (const auto& tracker : trackers_) {
    const std::string_view name = tracker->service().name;
    const std::string see = "see " + tracker->log().string();
    const observe::Elapsed elapsed(log_.console(), fmt::format("waiting for {} to upload", name));
    switch (tracker->wait(by_signal ? kUploadLimitAfterSignal : kUploadLimit)) {
      case observe::Tracker::End::uploaded:
        break;
      case observe::Tracker::End::failed:
        log_.warning(
            fmt::format("the client of {} has failed, and may not have uploaded all: {}", name, see));
        break;
      case observe::Tracker::End::still_uploading:
        log_.info(fmt::format("{} is still uploading, in a process that stays behind: {}", name, see));
    }
  }
  trackers_.clear();
}

std::unique_ptr<Records> open_records(const Session& session, const RunFolder& folder, uint64_t first_step,
                                      bool goes_on) {
  const config::Config& config = session.config();
  cut_back(session.log(), folder, first_step);
  if (goes_on && first_step > 1 && !observe::JsonLines::contains(folder.metrics(), "step", first_step - 1))
    session.log().warning(
        fmt::format("{}: has no step {}, after which the run goes on: what was recorded until then is lost, "
                    "and no report will show it",
                    folder.metrics().string(), first_step - 1));
  RecordOptions options{
      .first_step = first_step, .tensorboard = config.options().observe.tensorboard, .trackers = {}};
  for (const auto& [service, is_wanted] :
       {std::pair(&observe::Tracker::kWandb, config.options().observe.wandb),
        std::pair(&observe::Tracker::kMlflow, config.options().observe.mlflow)}) {
    if (!is_wanted) continue;
    const std::string key = fmt::format("observe.{}", service->key);
    try {
      const observe::Elapsed elapsed(session.log().console(),
                                     fmt::format("waiting for {} to accept the run", service->name));
      options.trackers.push_back(
          std::make_unique<observe::Tracker>(tracker_options(*service, session, folder, first_step > 1)));
    } catch (const Error& error) {
      if (first_step == 1) throw config.error(key, error.what());
      session.log().warning(fmt::format("goes on without {}: {}", service->name, error.what()));
    }
  }
  return std::make_unique<Records>(session.log(), folder, std::move(options));
}

}  // namespace pipeline::train
