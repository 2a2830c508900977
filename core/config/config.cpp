#include "core/config/config.hpp"

#include <algorithm>
#include <set>

#include "core/config/error.hpp"
#include "core/config/option.hpp"
#include "core/config/sources.hpp"
#include "core/config/suggest.hpp"
#include "core/config/vocabulary.hpp"

namespace pipeline::config {
namespace {

// Whether a key belongs to a plugin, but for the core's own, and is judged with its schema. An update rule is
// a plugin's only where one is named.
bool is_for_plugin(std::string_view key, bool has_rule) {
  for (const std::string_view table : kPluginTables)
    if (key.starts_with(table) && key.size() > table.size() && key[table.size()] == '.')
      return has_rule || table != "optimizer";
  return false;
}

bool names_rule(const Sources& sources) {
  const auto names = [](const Table& table) {
    const auto plugin = table.entries.find("optimizer.plugin");
    return plugin != table.entries.end() && plugin->second.value.text != "none";
  };
  return names(sources.base) || names(sources.sets) ||
         std::ranges::any_of(sources.stages, names, &StageLayer::table) ||
         std::ranges::any_of(sources.stage_sets, [&](const auto& set) { return names(set.second); });
}

void add_problem(const ConfigEntry& entry, std::string_view key, std::string_view problem,
                 Problems& problems) {
  problems.add(entry.origin, key, shown(entry.value), problem);
}

Setting default_setting(const pl_option& option) { return {option, default_value(option), Origin{}}; }

// What a file can write to be rid of a value that it inherits, for options that need not have one.
bool is_unset(const pl_option& option, const Literal& literal) {
  return can_be_unset(option) && literal.kind == Literal::Kind::kString && literal.text == kUnset;
}

// The value that `table` gives to the option, or its default. A bad value is added to `problems`.
Setting resolve(const pl_option& option, const std::string& key, const Table& table, Problems& problems) {
  Setting setting = default_setting(option);
  const auto found = table.entries.find(key);
  if (found == table.entries.end() || is_unset(option, found->second.value)) return setting;
  Checked checked = check(option, found->second.value);
  if (!checked.value) {
    add_problem(found->second, key, checked.problem, problems);
    return setting;
  }
  if (found->second.origin.kept && checked.value == setting.value) {
    setting.origin.kept = true;
    return setting;
  }
  setting.value = std::move(checked.value);
  setting.origin = found->second.origin;
  // It will be kept beside paths that are relative to another folder.
  if (const Origin& origin = setting.origin; origin.kind == Origin::Kind::kSet && !origin.base.empty()) {
    if (option.type == PL_OPTION_PATH) setting.value = absolute_path(std::get<std::string>(*setting.value));
    if (option.type == PL_OPTION_PATH_LIST)
      for (std::string& path : std::get<std::vector<std::string>>(*setting.value)) path = absolute_path(path);
  }
  return setting;
}

Origin whole_file(const std::string& file) {
  return file.empty() ? Origin{} : Origin{Origin::Kind::kFile, file, 0, 0, ""};
}

void check_required(const pl_option& option, const std::string& key, const Table& table,
                    const std::string& file, Problems& problems) {
  if ((option.flags & PL_OPTION_REQUIRED) && !table.entries.contains(key))
    problems.add(whole_file(file), key, "", "is required and not given: " + std::string(view(option.help)));
}

// All that can be said of one layer without the others.
void check_layer(const Table& table, bool has_rule, Problems& problems) {
  Vocabulary vocabulary;
  vocabulary.add(core_options(), "");
  vocabulary.check(
      table, [&](std::string_view key) { return is_for_plugin(key, has_rule); }, problems);
  for (const pl_option& option : core_options())
    resolve(option, std::string(view(option.key)), table, problems);
}

// The keys of one plugin's table, which `prefix` names: "task.".
std::vector<Setting> check_plugin(std::span<const pl_option> options, const std::string& prefix,
                                  const Table& table, const std::string& file, const FindOwners& owners,
                                  Problems& problems) {
  Vocabulary vocabulary;
  vocabulary.add(core_options(), "");
  vocabulary.add(options, prefix);
  vocabulary.set_owners(owners);
  vocabulary.check(
      table, [&](std::string_view key) { return !key.starts_with(prefix); }, problems);
  std::vector<Setting> settings;
  for (const pl_option& option : options) {
    const std::string key = prefix + std::string(view(option.key));
    settings.push_back(resolve(option, key, table, problems));
    check_required(option, key, table, file, problems);
  }
  return settings;
}

// Puts into force what the model says of an option that is not set.
void follow(const ModelOption& said, const std::string& prefix, const std::string& paths_from,
            std::vector<Setting>& settings, Problems& problems) {
  const auto found = std::ranges::find_if(
      settings, [&](const Setting& setting) { return view(setting.option.key) == said.key; });
  const std::optional<Literal> literal = parse_value(said.value);
  if (found == settings.end() || (!literal && said.problem.empty()))
    throw Error("the task says that the option " + said.key + " is " + said.value + " by " + said.from +
                ": it has no such option, or this is no TOML");
  const std::string key = prefix + said.key, ours = found->value ? to_toml(*found->value) : "";
  if (!said.problem.empty()) return problems.add(found->origin, key, ours, said.problem);
  // A default that a run has kept stays, as it was in force; not where the model requires another value.
  if (found->origin.kind == Origin::Kind::kDefault && (said.must_be || !found->origin.kept)) {
    Origin origin{Origin::Kind::kModel, said.from, 0, 0, ""};
    origin.base = paths_from;
    Checked checked = check(found->option, *literal);
    if (!checked.value) return add_problem({*literal, origin}, key, checked.problem, problems);
    if (found->option.type == PL_OPTION_PATH && said.base != paths_from) {
      auto& path = std::get<std::string>(*checked.value);
      path = path_for(path, said.base, paths_from);
      origin.followed = said.value;
    }
    found->value = std::move(checked.value);
    found->origin = origin;
    return;
  }
  if (!said.must_be || same(*parse_value(ours), *literal)) return;
  problems.add(
      found->origin, key, ours,
      said.from + " has " + said.value +
          ", and these weights are of that model: leave the option out, or begin with other weights");
}

// Judges the plugins' keys. Those of a plugin that cannot be loaded are judged once all else is in order.
void check_plugins(const Sources& sources, const LoadArgs& args, Problems& problems) {
  for (const StageLayer& stage : sources.stages) {
    const Table table = sources.merged(stage.name);
    std::vector<std::string> paths;
    if (const auto given = table.entries.find("plugins.paths"); given != table.entries.end())
      for (const Literal& path : given->second.value.items)
        paths.push_back(absolute_path(path.text, given->second.origin.base));
    const KnownPlugins plugins = args.find_plugins(paths);
    for (const std::string_view kind : kPluginTables) {
      const std::string prefix = std::string(kind) + '.';
      const auto plugin = table.entries.find(prefix + "plugin");
      if (plugin == table.entries.end()) continue;
      if (const auto options = plugins.options(kind, plugin->second.value.text))
        check_plugin(*options, prefix, table, sources.file, plugins.owners, problems);
    }
  }
}

void check_all(const Sources& sources, Problems& problems) {
  const bool has_rule = names_rule(sources);
  Table above_stages = sources.base;
  above_stages.merge(sources.sets);
  check_layer(above_stages, has_rule, problems);
  for (const StageLayer& stage : sources.stages) {
    check_layer(stage.table, has_rule, problems);
    const Table merged = sources.merged(stage.name);
    for (const pl_option& option : core_options())
      check_required(option, std::string(view(option.key)), merged, sources.file, problems);
  }
  for (const auto& [name, table] : sources.stage_sets) check_layer(table, has_rule, problems);
}

// Why a continued run may not change an option that --change does not take.
std::string why_not(std::string_view key, uint32_t flags) {
  if ((flags & PL_OPTION_MAY_CHANGE) || is_placement(key)) return "may change anyway: write --set";
  if (key.starts_with("task."))
    return "belongs to the data or the model that the run began with (what may change has a * in pipeline "
           "explain, and takes --set)";
  if (key.starts_with("loader.") || key == "train.global_batch" || key == "train.batch_per_device")
    return "decides which samples each step sees, from the first one on";
  if (key == "run.seed" || key == "run.reproducible") return "decides all numbers, from the first one on";
  if (key.starts_with("optimizer.")) return "decides what the optimizer has stored so far";
  if (key == "train.precision" || key == "train.loss_scale")
    return "decides how gradients are scaled, from the first step on";
  return "decides with which weights the run began";
}

void check_changes(const Sources& sources, Problems& problems) {
  const auto check = [&](const Table& table) {
    for (const auto& [key, entry] : table.entries) {
      if (entry.origin.kind != Origin::Kind::kChange) continue;
      const auto options = core_options();
      const auto known = std::ranges::find(options, key, [](const pl_option& o) { return view(o.key); });
      const uint32_t flags = known == options.end() ? 0 : known->flags;
      if ((flags & kChangesByName) || (known == options.end() && !is_for_plugin(key, names_rule(sources))))
        continue;
      const std::string reason = why_not(key, flags);
      problems.add(entry.origin, key, shown(entry.value),
                   reason.starts_with("may") ? reason
                                             : "a continued run cannot change it: it " + reason +
                                                   ": begin another run from the weights of this one, with "
                                                   "train.init_from and another run.dir");
    }
  };
  check(sources.sets);
  for (const auto& [name, table] : sources.stage_sets) check(table);
}

}  // namespace

Config::Config(std::shared_ptr<const Sources> sources, std::string_view stage)
    : Settings("", sources->file), sources_(std::move(sources)), stage_(stage) {
  const Table table = sources_->merged(stage);
  Problems problems;
  for (const pl_option& option : core_options()) {
    Setting setting = resolve(option, std::string(view(option.key)), table, problems);
    const std::string_view key = view(option.key);
    if (key == "schedule.lr_scaling" && setting.value == Value(std::string("conservative")))
      setting.value = Value(std::string("none"));
    if (key == "stage.name" && !stage.empty()) setting.value = Value(std::string(stage));
    insert(std::move(setting));
  }
  problems.throw_if_any();
  read_options();
}

std::vector<std::string> Config::stage_names() const {
  if (!sources_->selected_stage.empty()) return {sources_->selected_stage};
  return sources_->stage_names();
}

std::vector<std::string> Config::all_stage_names() const { return sources_->stage_names(); }

bool Config::has_stages() const { return sources_->has_stages; }

const std::string& Config::file() const { return sources_->file; }

const std::string& Config::paths_from() const { return sources_->paths_from; }

bool Config::is_of_one_stage() const { return sources_->is_resolved_stage; }

Config Config::for_stage(std::string_view name) const {
  if (!sources_->find_stage(name))
    throw ConfigError("stage " + std::string(name) +
                      ": no such stage: " + did_you_mean(name, sources_->stage_names()));
  return Config(sources_, name);
}

Config Config::with_found(std::string_view key, int64_t value) const {
  Config found = *this;
  Setting setting = this->setting(key);
  setting.value = value;
  setting.origin.is_auto = true;
  found.replace(std::move(setting));
  found.read_options();
  return found;
}

Config Config::with_changed(std::string_view key, const std::string& value, const std::string& when) const {
  Config changed = *this;
  Setting setting = this->setting(key);
  const std::optional<Literal> literal = parse_value(value);
  setting.value = literal ? check(setting.option, *literal).value : std::nullopt;
  setting.origin = {Origin::Kind::kChanged, "", 0, 0, when};
  changed.replace(std::move(setting));
  changed.read_options();
  return changed;
}

Config Config::without_changes() const {
  return sources_->unchanged ? Config(sources_->unchanged, stage_) : *this;
}

pl_config Config::plugin(std::string_view table, std::span<const pl_option> options, const FindOwners& owners,
                         std::span<const ModelOption> model) const {
  const std::string prefix = std::string(table) + '.';
  Problems problems;
  const Table table_here = sources_->merged(stage_);
  std::vector<Setting> settings = check_plugin(options, prefix, table_here, sources_->file, owners, problems);
  for (const ModelOption& said : model) follow(said, prefix, sources_->paths_from, settings, problems);
  problems.throw_if_any();
  return pl_config(prefix, sources_->file, std::move(settings));
}

std::string Config::unchecked_string(std::string_view key, bool path) const {
  const Table table = sources_->merged(stage_);
  const auto found = table.entries.find(std::string(key));
  if (found == table.entries.end() || found->second.value.kind != Literal::Kind::kString) return "";
  const std::string& text = found->second.value.text;
  return path ? absolute_path(text, found->second.origin.base) : text;
}

Config load(const LoadArgs& args) {
  Problems problems;
  auto sources = std::make_shared<Sources>(read_sources(args, problems));
  check_all(*sources, problems);
  check_changes(*sources, problems);
  if (!problems.empty() && args.find_plugins) check_plugins(*sources, args, problems);
  problems.throw_if_any();
  if (!args.changes.empty()) {
    LoadArgs unchanged = args;
    unchanged.changes.clear();
    sources->unchanged = std::make_shared<Sources>(read_sources(unchanged, problems));
  }
  return Config(std::move(sources), "");
}

bool is_placement(std::string_view key) {
  return key.starts_with("strategy.") || key.starts_with("backend.");
}

std::vector<Row> Config::rows(std::span<const PluginConfig* const> plugins) const {
  std::vector<Row> rows;
  std::set<std::string, std::less<>> known;
  const auto add = [&](const Settings& settings) {
    for (const std::string& key : settings.keys()) {
      const Setting& setting = settings.setting(key);
      const std::string full = settings.prefix() + key;
      if (full.starts_with("stage.") && (stage_.empty() || !has_stages())) continue;
      const bool may_change = is_placement(full) || (setting.option.flags & PL_OPTION_MAY_CHANGE);
      const bool by_name = settings.prefix().empty() && (setting.option.flags & kChangesByName);
      rows.push_back({full, settings.show(key), setting.origin, may_change, by_name});
      known.insert(full);
    }
  };
  add(*this);
  for (const PluginConfig* plugin : plugins) add(*plugin);
  // Values of plugins whose schema was not given, as they were written.
  for (const auto& [key, entry] : sources_->merged(stage_).entries)
    if (!known.contains(key) && !key.starts_with("stage."))
      rows.push_back({key, config::to_toml(entry.value), entry.origin, is_placement(key), false});
  return rows;
}

}  // namespace pipeline::config
