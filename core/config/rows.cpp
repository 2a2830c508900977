#include <set>

#include "core/config/config.hpp"
#include "core/config/option.hpp"
#include "core/config/sources.hpp"

namespace pipeline::config {
namespace {

// Where and on how many devices a run computes may change by the design's rules; its numeric identity is
// checked elsewhere.
bool placement(std::string_view key) { return key.starts_with("strategy.") || key.starts_with("backend."); }

}  // namespace

std::vector<Row> Config::rows(std::span<const PluginConfig* const> plugins) const {
  std::vector<Row> rows;
  std::set<std::string, std::less<>> known;
  const auto add = [&](const Settings& settings) {
    for (const std::string& key : settings.keys()) {
      const Setting& setting = settings.setting(key);
      const std::string full = settings.prefix() + key;
      if (full.starts_with("stage.") && (stage_.empty() || !has_stages())) continue;
      const bool may_change = placement(full) || (setting.option.flags & PL_OPTION_MAY_CHANGE);
      rows.push_back({full, settings.show(key), setting.origin, may_change});
      known.insert(full);
    }
  };
  add(*this);
  for (const PluginConfig* plugin : plugins) add(*plugin);
  // Values of plugins whose schema was not given, as they were written.
  for (const auto& [key, entry] : sources_->merged(stage_).entries)
    if (!known.contains(key) && !key.starts_with("stage."))
      rows.push_back({key, config::to_toml(entry.value), entry.origin, placement(key)});
  return rows;
}

}  // namespace pipeline::config
