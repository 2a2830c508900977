#include "core/train/run/changes.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/store.hpp"

namespace pipeline::train {

config::Config with_changes(config::Config config, const checkpoint::Contents& contents, observe::Log* log) {
  std::map<std::string, const checkpoint::Change*> last;
  for (const checkpoint::Change& change : contents.changes) last[change.key] = &change;
  const auto stored = config::stored_values(contents.config_toml);
  for (const auto& [key, change] : last) {
    const std::string given = config.show(key);
    const auto in_force = stored.find(key);
    // Not where it is named once more, or was changed otherwise since.
    if (config.origin(key).kind == config::Origin::Kind::kChange || config::same_value(given, change->now) ||
        !config::same_value(in_force == stored.end() ? "" : in_force->second, change->now))
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

config::Config with_changes(config::Config config, const RunFolder& folder) {
  const checkpoint::Scan scan = checkpoint::Store({.folder = folder.checkpoints().string()}).scan();
  if (scan.checkpoints.empty()) return config;
  return with_changes(std::move(config), checkpoint::read_manifest(scan.checkpoints.front().path).contents,
                      nullptr);
}

}  // namespace pipeline::train
