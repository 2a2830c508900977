#include "core/train/run/records.hpp"

#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/train/run/signals.hpp"

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

observe::Wandb::Options wandb_options(const Session& session, const RunFolder& folder, bool continued) {
  const config::Config& config = session.config();
  const fs::path path = fs::absolute(folder.path()).lexically_normal();
  const bool is_stage = config.has_value("stage.name");
  observe::Wandb::Options options{
      .folder = folder.path(),
      .project = config.find_string("observe.wandb_project").value_or(""),
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

Records::Records(observe::Log& log, const RunFolder& folder, const RecordOptions& options)
    : log_(log),
      wandb_(options.wandb ? std::make_unique<observe::Wandb>(*options.wandb) : nullptr),
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
  if (!wandb_ || !wandb_->died()) return;
  log_.warning(fmt::format("the client of Weights & Biases has ended, and the run goes on without it: see {}",
                           wandb_->log().string()));
  wandb_.reset();
}

void Records::evaluation(const nlohmann::ordered_json& line) {
  append("eval.jsonl", evaluations_, line);
  if (events_) append("TensorBoard's file", *events_, "eval", line);
}

void Records::finish(bool by_signal) {
  if (!wandb_) return;
  const observe::Elapsed elapsed(log_.console(), "waiting for Weights & Biases to upload");
  const std::string see = "see " + wandb_->log().string();
  switch (wandb_->finish(by_signal ? kUploadLimitAfterSignal : kUploadLimit)) {
    case observe::Wandb::End::uploaded:
      break;
    case observe::Wandb::End::failed:
      log_.warning("the client of Weights & Biases has failed, and may not have uploaded all: " + see);
      break;
    case observe::Wandb::End::still_uploading:
      log_.info("Weights & Biases is still uploading, in a process that stays behind: " + see);
  }
  wandb_.reset();
}

std::unique_ptr<Records> open_records(const Session& session, const RunFolder& folder, uint64_t first_step) {
  const config::Config& config = session.config();
  cut_back(session.log(), folder, first_step);
  RecordOptions options{
      .first_step = first_step, .tensorboard = config.get_bool("observe.tensorboard"), .wandb = std::nullopt};
  std::optional<observe::Elapsed> elapsed;
  if (config.get_bool("observe.wandb")) {
    options.wandb = wandb_options(session, folder, first_step > 1);
    elapsed.emplace(session.log().console(), "waiting for Weights & Biases to accept the run");
  }
  try {
    return std::make_unique<Records>(session.log(), folder, options);
  } catch (const Error& error) {
    if (first_step == 1) throw config.error("observe.wandb", error.what());
    session.log().warning(fmt::format("goes on without Weights & Biases: {}", error.what()));
    options.wandb.reset();
    return std::make_unique<Records>(session.log(), folder, options);
  }
}

}  // namespace pipeline::train
