#include "core/train/stages/other_options.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace pipeline::train {
namespace {

// Values are TOML source, and so is `folder`: "runs/x". What lies in the folder goes by its path there.
std::string without_folder(std::string value, std::string folder) {
  if (folder.size() < 3) return value;  // none, or ""
  folder.back() = '/';
  for (size_t at = value.find(folder); at != value.npos; at = value.find(folder, at + 1))
    value.erase(at + 1, folder.size() - 1);
  return value;
}

// Whether the option decides the result of a stage that does not train.
bool decides_result(const config::Difference& one) {
  for (const char* table : {"optimizer.", "schedule.", "loader.", "checkpoint.", "launch.", "observe."})
    if (one.key.starts_with(table)) return false;
  for (const char* place : {"run.dir", "run.name", "run.cache_dir"})
    if (one.key == place) return false;
  return !(one.key.starts_with("train.") && one.by_name);  // the length, clipping
}

}  // namespace

std::vector<std::string> other_options(std::string_view stored_toml, const config::Config& now,
                                       std::span<const config::PluginConfig* const> plugins) try {
  const std::vector<config::Difference> all = config::differences(stored_toml, now, plugins);
  const auto dir = std::ranges::find(all, "run.dir", &config::Difference::key);
  std::vector<std::string> other;
  for (const config::Difference& one : all) {
    const bool moved =
        dir != all.end() && without_folder(one.before, dir->before) == without_folder(one.now, dir->now);
    if (moved || !decides_result(one)) continue;
    other.push_back(fmt::format("{} was {} and is {}", one.key, config::or_not_set(one.before),
                                config::or_not_set(one.now)));
  }
  return other;
} catch (const config::ConfigError&) {  // such as what a stage of another kind keeps
  return {"its stored options cannot be read"};
}

}  // namespace pipeline::train
