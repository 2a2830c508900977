#include "core/train/weights.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "core/plugins/error.hpp"
#include "core/plugins/str.hpp"
#include "core/train/initial_values.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// A checkpoint of ours, a folder of them, or a run's folder.
bool is_ours(const fs::path& path) {
  return fs::exists(path / "manifest.json") || fs::exists(path / "checkpoints") || fs::exists(path / ".lock");
}

}  // namespace

std::vector<checkpoint::Wanted> wanted_values(plugins::Task& task) {
  std::vector<checkpoint::Wanted> wanted;
  for (const pl_parameter& parameter : task.parameters())
    wanted.push_back({std::string(plugins::view(parameter.name)), {parameter.shape, parameter.shape + parameter.ndim}});
  return wanted;
}

void load_values(Session& session, const checkpoint::Checkpoint& checkpoint) {
  checkpoint.check("value", wanted_values(session.task()));
  session.strategy().load_state([&](const pl_piece& piece, void* destination) { checkpoint.read(piece, destination); }, true);
}

std::string load_weights(Session& session, const std::string& from) {
  if (!from.empty() && is_ours(from)) {
    const auto checkpoint = checkpoint::open_any(from, checkpoint::Which::kBest);
    load_values(session, checkpoint);
    return "weights from " + checkpoint.path();
  }
  if (!from.empty()) {
    if (!fs::is_directory(from))
      throw session.config().error("train.init_from", "there is no such folder: give a stage, a run folder, a checkpoint, or a folder of "
                                                      "another tool");
    if (!session.task().has_import_model())
      throw session.config().error("train.init_from", fmt::format("is no checkpoint of ours, and {} cannot read any other kind",
                                                                  session.task_plugin().label()));
    session.task().import_model(from);
  }
  InitialValues values(session.task());
  session.strategy().load_state([&](const pl_piece& piece, void* destination) { values(piece, destination); }, true);
  return from.empty() ? fmt::format("fresh weights (run.seed {})", session.run_info().seed) : "weights imported from " + from;
}

}  // namespace pipeline::train
