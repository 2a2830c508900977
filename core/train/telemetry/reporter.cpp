#include "core/train/telemetry/reporter.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/observe/format.hpp"
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

constexpr size_t kRateSteps = 10;      // rates are means over this many steps
constexpr uint64_t kAdviceFrom = 10;   // steps: the first ones always wait
constexpr uint64_t kAdviceAfter = 20;  // steps
constexpr double kAdviceShare = 0.2;

struct Rates {
  double seconds = 0, data_wait = 0, tokens = 0, samples = 0;
  std::optional<double> flops = 0;  // nullopt: not known of all of them
};

Rates rates_of(const std::deque<StepRecord>& records) {
  Rates total;
  for (const StepRecord& r : records) {
    total.seconds += r.seconds;
    total.data_wait += r.data_wait_seconds;
    total.tokens += static_cast<double>(r.tokens);
    total.samples += static_cast<double>(r.samples);
    total.flops = total.flops && r.flops ? std::optional(*total.flops + *r.flops) : std::nullopt;
  }
  return total;
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
  RecordOptions options{.first_step = first_step, .tensorboard = config.options().observe.tensorboard};
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

Reporter::Reporter(observe::Log& log, Records& records, Options options)
    : log_(log), options_(std::move(options)), records_(records), peak_flops_(options_.peak_flops) {}

void Reporter::step(const StepRecord& record, double elapsed_seconds, MemoryUse memory) {
  recent_.push_back(record);
  if (recent_.size() > kRateSteps) recent_.pop_front();
  raise_peak(record);
  write(record, memory);

  observe::Console& console = log_.console();
  const bool due = record.step % options_.every == 0 || record.step == options_.total_steps || seen_ == 0;
  if (console.interactive()) {
    const double done = options_.total_steps > 0
                            ? static_cast<double>(record.step) / static_cast<double>(options_.total_steps)
                            : elapsed_seconds / std::max(options_.max_seconds, 1.0);
    const std::string text = line(record, elapsed_seconds, memory);
    const int columns = std::clamp(console.width() - static_cast<int>(text.size()) - 2, 0, 30);
    console.status(columns >= 5 ? observe::progress_bar(done, columns) + " " + text : text);
    if (due) log_.file_only(text);
  } else if (due) {
    log_.info(line(record, elapsed_seconds, memory));
  }
  ++seen_;
  advise(record);
}

// The peak is measured once, before the first step, and comes out too low where something else was at work
// then. What a step has done can be done.
void Reporter::raise_peak(const StepRecord& record) {
  if (!record.flops || peak_flops_ <= 0 || record.seconds <= 0) return;
  const double done = *record.flops / record.seconds;
  if (done <= peak_flops_) return;
  if (!std::exchange(peak_raised_, true))
    log_.info(fmt::format(
        "step {} did {:.3g} GFLOP/s, more than the peak of {:.3g} that was measured at the start, when "
        "something else may have been running: from here on MFU is against the fastest step",
        record.step, done / 1e9, peak_flops_ / 1e9));
  peak_flops_ = done;
}

void Reporter::write(const StepRecord& record, MemoryUse memory) {
  nlohmann::ordered_json json;
  json["step"] = record.step;
  json["epoch"] = record.epoch;
  json["loss"] = record.loss;
  json["learning_rate"] = record.learning_rate;
  json["grad_norm"] = record.grad_norm;
  json["samples"] = record.samples;
  json["tokens"] = record.tokens;
  if (record.tokens > 0 && record.positions > 0)
    json["padding"] = 1 - static_cast<double>(record.tokens) / static_cast<double>(record.positions);
  json["tokens_per_second"] = record.seconds > 0 ? static_cast<double>(record.tokens) / record.seconds : 0;
  const bool has_mfu = record.flops && peak_flops_ > 0 && record.seconds > 0;
  json["mfu"] = has_mfu ? nlohmann::ordered_json(*record.flops / record.seconds / peak_flops_) : nullptr;
  json["seconds"] = record.seconds;
  json["data_wait_seconds"] = record.data_wait_seconds;
  if (memory.device > 0) json["device_memory"] = memory.device;
  if (record.device_utilisation) json[kDeviceUtilisation] = *record.device_utilisation;
  if (options_.dynamic_loss_scale) json["loss_scale"] = record.loss_scale;
  if (record.skipped) json["skipped"] = true;
  for (const auto& [name, value] : record.task_metrics) json[name] = value;
  records_.step(json);
}

std::string Reporter::line(const StepRecord& record, double elapsed_seconds, MemoryUse memory) const {
  const Rates rates = rates_of(recent_);
  const double seconds = std::max(rates.seconds, 1e-9);
  std::string text = options_.total_steps > 0 ? fmt::format("step {}/{}", record.step, options_.total_steps)
                                              : fmt::format("step {}", record.step);
  text += fmt::format("  loss {:.4f}", record.loss);
  for (const auto& [name, value] : record.task_metrics)
    if (std::ranges::find(options_.losses, name) != options_.losses.end())
      text += fmt::format("  {} {:.4f}", name, value);
  text += fmt::format("  lr {:.2e}  norm {:.2f}", record.learning_rate, record.grad_norm);
  if (record.skipped) text += " (skipped)";
  text += rates.tokens > 0 ? fmt::format("  {} tokens/s", observe::human_count(rates.tokens / seconds))
                           : fmt::format("  {} samples/s", observe::human_count(rates.samples / seconds));
  if (rates.flops && peak_flops_ > 0)
    text += fmt::format("  mfu {:.0f}%", 100 * *rates.flops / seconds / peak_flops_);
  text +=
      fmt::format("  data {:.0f}%  {}", 100 * rates.data_wait / seconds, observe::human_bytes(memory.host));
  if (memory.device > 0) text += fmt::format("  device {}", observe::human_bytes(memory.device));
  if (record.device_utilisation) text += fmt::format("  busy {:.0f}%", 100 * *record.device_utilisation);

  double left = INFINITY;
  if (options_.total_steps > 0)
    left = static_cast<double>(options_.total_steps - record.step) * seconds /
           static_cast<double>(recent_.size());
  if (options_.max_seconds > 0) left = std::min(left, options_.max_seconds - elapsed_seconds);
  return text + "  eta " + observe::human_duration(left);
}

void Reporter::advise(const StepRecord& record) {
  if (seen_ <= kAdviceFrom) return;
  waited_ += record.data_wait_seconds;
  worked_ += record.seconds;
  if (advised_ || seen_ < kAdviceAfter || waited_ <= kAdviceShare * worked_) return;
  advised_ = true;
  log_.warning(
      fmt::format("{:.0f}% of the time goes into waiting for data: raise loader.workers or loader.prefetch "
                  "(of a task in Python, loader.processes), put the data on a faster disk, or let the task "
                  "prepare more of it in advance",
                  100 * waited_ / worked_));
}

}  // namespace pipeline::train
