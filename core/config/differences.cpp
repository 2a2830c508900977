// What has changed since a run was started, and what of it may.
#include "core/config/config.hpp"

#include "core/config/sources.hpp"

namespace pipeline::config {
namespace {

std::map<std::string, ConfigEntry> stored_entries(std::string_view toml, const std::string& file) {
  const Document document = parse(toml, file, 0);
  std::map<std::string, ConfigEntry> entries(document.root.entries.begin(), document.root.entries.end());
  if (document.resolved_stage)
    for (const auto& [key, entry] : document.resolved_stage->table.entries)
      entries.emplace("stage." + key, entry);
  return entries;
}

// Whether the key says what a run's values come from, or which stage it is.
bool names_origin(std::string_view key) {
  return key == "train.init_from" || key == "train.init_state" || key.starts_with("stage.");
}

}  // namespace

std::string or_not_set(const std::string& value) { return value.empty() ? "not set" : value; }

bool same_value(const std::string& a, const std::string& b) {
  const std::optional<Literal> left = parse_value(a);
  const std::optional<Literal> right = parse_value(b);
  return left && right ? same(*left, *right) : a == b;
}

std::vector<Difference> differences(std::string_view stored_toml, const Config& now,
                                    std::span<const PluginConfig* const> plugins, const std::string& where) {
  std::map<std::string, ConfigEntry> stored = stored_entries(stored_toml, where);
  std::vector<Difference> differences;
  for (const Row& row : now.rows(plugins)) {
    const auto before = stored.find(row.key);
    const std::string value = before == stored.end() ? "" : to_toml(before->second.value);
    const bool is_followed = !row.origin.followed.empty() && same_value(value, row.origin.followed);
    if (!is_followed && !same_value(value, row.value)) {
      // Nobody has set what is new and has its default: this version of the plugin has more options.
      const bool came =
          before == stored.end() && (is_placement(row.key) || row.origin.kind == Origin::Kind::kDefault);
      const bool named = row.by_name && row.origin.kind == Origin::Kind::kChange;
      differences.push_back({.key = row.key,
                             .before = value,
                             .now = row.value,
                             .origin = row.origin,
                             .may_change = row.may_change || came || named,
                             .with_its_plugin = came && is_placement(row.key),
                             .is_gone = false,
                             .by_name = row.by_name,
                             .named = named});
    }
    if (before != stored.end()) stored.erase(before);
  }
  // Options that no plugin has any more.
  for (const auto& [key, entry] : stored) {
    differences.push_back({.key = key,
                           .before = to_toml(entry.value),
                           .origin = Origin{},
                           .may_change = !key.starts_with("stage."),
                           .with_its_plugin = is_placement(key),
                           .is_gone = !is_placement(key),
                           .by_name = false,
                           .named = false});
  }
  return differences;
}

std::map<std::string, std::string> stored_values(std::string_view stored_toml, const std::string& file) {
  std::map<std::string, std::string> values;
  for (const auto& [key, entry] : stored_entries(stored_toml, file))
    values.emplace(key, to_toml(entry.value));
  return values;
}

std::vector<Difference> require_resumable(std::string_view stored_toml, std::string_view where,
                                          const Config& now, std::span<const PluginConfig* const> plugins,
                                          GoesOn who) {
  std::vector<Difference> allowed;
  Problems problems;
  const std::string stage = now.has_stages() ? "stage." + now.get_string("stage.name") + "." : "";
  for (Difference& difference : differences(stored_toml, now, plugins, std::string(where))) {
    const bool branches = who == GoesOn::another && (difference.by_name || names_origin(difference.key));
    if (difference.may_change || branches) {
      allowed.push_back(std::move(difference));
      continue;
    }
    const std::string before = shorten(or_not_set(difference.before), 80);
    std::string remedy = ", and it must stay the same when a run is continued: " +
                         (difference.before.empty() ? "remove it" : "write " + before);
    if (who == GoesOn::another) remedy = "; with train.init_state it must be the same: write " + before;
    if (difference.by_name && !difference.now.empty())
      remedy += ", or change it from here on with --change " + stage + difference.key + "=" + difference.now;
    problems.add(difference.origin, difference.key, shorten(difference.now, 80),
                 "was " + before + " in " + std::string(where) + remedy +
                     ", or begin another run from these weights (train.init_from, and another run.dir), or "
                     "start over with --fresh");
  }
  problems.throw_if_any();
  return allowed;
}

}  // namespace pipeline::config
