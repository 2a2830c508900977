#include "core/train/weights.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "core/checkpoint/store.hpp"
#include "core/plugins/error.hpp"
#include "core/plugins/str.hpp"
#include "core/train/initial_values.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// A checkpoint of ours, a folder of them, or a run's folder.
bool is_ours(const fs::path& path) {
  for (const char* mark : {"manifest.json", "checkpoints", ".lock"})
    if (fs::exists(path / mark)) return true;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (checkpoint::step_of(entry.path().filename().string())) return true;
  return false;
}

// Weights come from a stage, or from what the user named.
const char* origin_key(const config::Config& config) { return config.is_set("stage.init_from") ? "stage.init_from" : "train.init_from"; }

}  // namespace

std::vector<checkpoint::Wanted> wanted_values(plugins::Task& task) {
  std::vector<checkpoint::Wanted> wanted;
  for (const pl_parameter& parameter : task.parameters())
    wanted.push_back({std::string(plugins::view(parameter.name)), {parameter.shape, parameter.shape + parameter.ndim}});
  return wanted;
}

void warn_of_rejected(observe::Log& log, const std::string& folder, std::span<const checkpoint::Rejected> rejected) {
  for (const checkpoint::Rejected& entry : rejected) {
    const std::string path = folder + "/" + entry.name;
    const std::string_view reason = entry.reason;
    log.warning(fmt::format("{} is not used: {}", path, reason.starts_with(path + "/") ? reason.substr(path.size() + 1) : reason));
  }
}

checkpoint::Checkpoint open_checkpoint(const std::string& path, checkpoint::Which which, observe::Log& log) {
  std::vector<checkpoint::Rejected> rejected;
  checkpoint::Checkpoint found = checkpoint::open_any(path, which, &rejected);
  warn_of_rejected(log, fs::path(found.path()).parent_path().string(), rejected);
  return found;
}

void load_values(Session& session, const checkpoint::Checkpoint& checkpoint) {
  checkpoint.check("value", wanted_values(session.task()));
  session.strategy().load_state([&](const pl_piece& piece, void* destination) { checkpoint.read(piece, destination); }, true);
}

std::string load_weights(Session& session, const std::string& from) {
  if (!from.empty() && is_ours(from)) {
    const auto checkpoint = open_checkpoint(from, checkpoint::Which::kBest, session.log());
    load_values(session, checkpoint);
    return "weights from " + checkpoint.path();
  }
  if (!from.empty()) {
    if (!fs::is_directory(from))
      throw session.config().error(origin_key(session.config()),
                                   fmt::format("there is no folder {}: run the stage that makes it first, or name a stage, a run, a checkpoint or "
                                               "a folder of another tool that is there",
                                               from));
    if (!session.task().has_import_model())
      throw session.config().error(origin_key(session.config()), fmt::format("{} is no checkpoint of ours, and {} cannot read any other kind",
                                                                             from, session.task_plugin().label()));
    session.task().import_model(from);
  }
  InitialValues values(session.task());
  session.strategy().load_state([&](const pl_piece& piece, void* destination) { values(piece, destination); }, true);
  return from.empty() ? fmt::format("fresh weights (run.seed {})", session.run_info().seed) : "weights imported from " + from;
}

}  // namespace pipeline::train
