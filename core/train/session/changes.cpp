#include "core/train/session/changes.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/files.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/store.hpp"
#include "core/train/session/run_folder.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

config::Config with_changes(config::Config config, const checkpoint::Contents& contents, observe::Log* log) {
  std::map<std::string, const checkpoint::Change*> last;
  for (const checkpoint::Change& change : contents.changes) last[change.key] = &change;
  const auto stored = config::stored_values(contents.config_toml);
  for (const auto& [key, change] : last) {
    const std::string given = config.show(key);
    const auto in_force = stored.find(key);
    // Not where it is named once more, or was changed otherwise since.
    if (config.origin(key).kind == config::Origin::Kind::kChange || config::same_value(given, change->now) ||
        (!stored.empty() &&
         !config::same_value(in_force == stored.end() ? "" : in_force->second, change->now)))
      continue;
    const bool is_older =
        std::ranges::any_of(contents.changes, [&, key = key](const checkpoint::Change& other) {
          return other.key == key && config::same_value(other.before, given);
        });
    if (!is_older) continue;
    const std::string when = fmt::format("after step {}", change->step);
    if (log != nullptr)
      log->info(fmt::format("{} = {}, as changed {} ({}: {}; --change changes it again)", key,
                            config::or_not_set(change->now), when, config.origin(key).describe(),
                            config::or_not_set(given)));
    config = config.with_changed(key, change->now, when);
  }
  return config;
}

namespace {

constexpr const char* kFile = "changes.json";

checkpoint::Scan checkpoints_in(const fs::path& folder) {
  return checkpoint::Store({.folder = (folder / "checkpoints").string()}).scan();
}

}  // namespace

config::Config with_changes(config::Config config, const fs::path& folder) {
  const checkpoint::Scan scan = checkpoints_in(folder);
  return with_changes(std::move(config),
                      scan.checkpoints.empty()
                          ? changed_before_first(folder)
                          : checkpoint::read_manifest(scan.checkpoints.front().path).contents,
                      nullptr);
}

checkpoint::Contents changed_before_first(const fs::path& folder) {
  checkpoint::Contents contents;
  const fs::path path = folder / kFile;
  if (is_there(path)) contents.changes = checkpoint::parse_changes(read_file(path), path.string());
  // Where checkpoints were taken away: what counted from one of them on.
  std::erase_if(contents.changes, [](const checkpoint::Change& change) { return change.step > 0; });
  return contents;
}

std::vector<checkpoint::Change> changes_from_start(const config::Config& config, const fs::path& folder) {
  const checkpoint::Contents contents = changed_before_first(folder);
  const config::Config before = with_changes(config.without_changes(), contents, nullptr);
  std::vector<checkpoint::Change> changes = contents.changes;
  for (const config::Row& row : config.rows())
    if (row.by_name && row.origin.kind == config::Origin::Kind::kChange &&
        !config::same_value(before.show(row.key), row.value))
      changes.push_back({0, row.key, before.show(row.key), row.value});
  return changes;
}

void write_changes(const fs::path& folder, const std::vector<checkpoint::Change>& changes) {
  if (!changes.empty() || fs::exists(folder / kFile))
    write_atomically(folder / kFile, checkpoint::format_changes(changes));
}

void keep_changes_for_later(const config::Config& config, const fs::path& folder) {
  if (!checkpoints_in(folder).checkpoints.empty()) return;
  const std::vector<checkpoint::Change> changes = changes_from_start(config, folder);
  if (changes.empty()) return;
  RunFolder::make(folder);
  write_changes(folder, changes);
}

}  // namespace pipeline::train
