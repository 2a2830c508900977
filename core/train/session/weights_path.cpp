#include "core/train/session/weights_path.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "core/base/foreign.hpp"
#include "core/base/program.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/checkpoint/store.hpp"
#include "core/safetensors/crc32c.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = " (manifest ";  // and its checksum

// What is wrong with weights that are no folder.
std::string no_folder(const std::string& path) {
  if (as_shown(path) == "unset") return "there is no folder unset: to start from fresh weights write \"\"";
  if (fs::exists(path)) return fmt::format("{} {}", path, foreign::folder(path));
  const std::string remedy = foreign::hub_remedy(path);
  return fmt::format(
      "there is no folder {}: run the stage that makes it first, or name a stage, a run, a checkpoint or a "
      "folder of another tool that is there{}",
      path, remedy.empty() ? "" : "; " + remedy);
}

}  // namespace

const char* weights_key(const config::Config& config) {
  return config.is_set("stage.init_from") ? "stage.init_from" : "train.init_from";
}

void require_folder(const config::Config& config, const std::string& init_from) {
  if (fs::is_directory(init_from)) return;
  throw config.error(weights_key(config), no_folder(init_from));
}

bool is_ours(const std::string& weights) {
  const fs::path path = weights;
  for (const char* mark : {"manifest.json", "checkpoints", ".lock"})
    if (fs::exists(path / mark)) return true;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (checkpoint::step_of(entry.path().filename().string())) return true;
  return false;
}

bool is_foreign(const std::string& weights) {
  return fs::exists(fs::path(weights) / "config.json") && !is_ours(weights);
}

std::string best_checkpoint(const std::string& weights) {
  const fs::path nested = fs::path(weights) / "checkpoints";
  const checkpoint::Store store({.folder = fs::exists(nested) ? nested.string() : weights});
  if (const auto best = store.best()) return best->path;
  const checkpoint::Scan scan = store.scan();
  return scan.checkpoints.empty() ? weights : scan.checkpoints.front().path;
}

std::string checkpoint_of(const std::string& weights) {
  std::string path = best_checkpoint(weights);
  std::ifstream manifest(fs::path(path) / checkpoint::kManifestName, std::ios::binary);
  if (!manifest) return as_shown(path);
  const std::string text(std::istreambuf_iterator<char>(manifest), {});
  return fmt::format("{}{}{})", as_shown(path), kManifest,
                     checkpoint::hex(safetensors::crc32c(0, std::as_bytes(std::span(text)))));
}

bool same_weights(const std::string& then, const std::string& now, const std::string& base) {
  if (then.empty() || now.empty()) return then == now;
  const size_t manifest_then = then.rfind(kManifest), manifest_now = now.rfind(kManifest);
  if (manifest_then != std::string::npos && manifest_now != std::string::npos)
    return then.substr(manifest_then) == now.substr(manifest_now);
  return config::absolute_path(then, base) == config::absolute_path(now);
}

}  // namespace pipeline::train
