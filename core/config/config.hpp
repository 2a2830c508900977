#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/core_options.hpp"
#include "core/config/settings.hpp"

namespace pipeline::config {

// The options ("zero_stage") of all plugins of a table ("strategy"), with the plugins that have each: for
// advice about a key that the plugin in use does not know.
using Owners = std::map<std::string, std::vector<std::string>>;
using FindOwners = std::function<Owners(std::string_view table)>;

struct KnownPlugins {
  // Returns the options of a plugin ("task", "linear_regression"); nullopt if it cannot be loaded.
  std::function<std::optional<std::span<const pl_option>>(std::string_view table, const std::string& plugin)>
      options;
  FindOwners owners;
};

struct LoadArgs {
  // A file as the user wrote it, or a run's folder, which keeps its own. Empty: only `sets` and defaults.
  std::string file;
  std::vector<std::string> sets;  // arguments of --set: "train.max_steps=20", "stage.sft.optimizer.lr=1e-5"
  std::vector<std::string> changes;  // arguments of --change, which come last
  std::string stage;                 // argument of --stage; empty: all stages
  // Called only if the core's own keys are wrong, so that problems with the plugins' keys are reported
  // together with them. `paths`: the configuration's plugins.paths.
  std::function<KnownPlugins(const std::vector<std::string>& paths)> find_plugins;
};

struct Sources;  // what was read: sources.hpp

// Where and on how many devices a run computes may change by the design's rules, and the options of a
// strategy or a backend come and go with it; its numeric identity is checked elsewhere.
bool is_placement(std::string_view key);

// One key with the value in force.
struct Row {
  std::string key;    // full: "task.model.n_head"
  std::string value;  // TOML source; empty: not given, and no default
  Origin origin;
  bool may_change;  // when a run is continued
  bool by_name;     // so long as --change names it
};

// What the model that a run's values come from says of an option.
struct ModelOption {
  std::string key;       // as in the plugin's schema
  std::string value;     // TOML source
  std::string from;      // what says so: "models/gpt2/config.json"
  bool must_be = false;  // a set value may not differ
  std::string problem;   // not empty: what is wrong with the option beside the model, in place of a value
  std::string base;      // what a path in `value` is relative to, as Origin has it
};

// A configuration: the core's own options, checked, and the plugins' tables, which plugin() checks against
// a plugin's schema. Later sources win: defaults, the files that `extends` names, the file, its [[stage]],
// --set. An immutable value type.
class Config : public Settings {
 public:
  // The values of the core's own options. All else about an option is asked by key: where its value comes
  // from, how to show it, an error about it.
  const CoreOptions& options() const { return *options_; }

  // Stage names in order of execution; only LoadArgs.stage if that is set. Without [[stage]]: one, "train".
  std::vector<std::string> stage_names() const;
  // All stage names, whatever LoadArgs.stage is.
  std::vector<std::string> all_stage_names() const;
  // False: there is no [[stage]]; a single stage is implied.
  bool has_stages() const;
  // Returns this configuration overridden by the stage's own values, with `stage.name`, `stage.kind`
  // (train, evaluate, predict, export, pool) and `stage.init_from` set. Throws ConfigError if there is no
  // such stage.
  Config for_stage(std::string_view name) const;

  // This configuration with what was found for an integer that is "auto".
  Config with_found(std::string_view key, int64_t value) const;
  // This configuration with a value that an earlier launch was given with --change: TOML source, empty: none.
  // `when`: "after step 40".
  Config with_changed(std::string_view key, const std::string& value, const std::string& when) const;

  // This configuration without what --change names in this launch.
  Config without_changes() const;

  // Checks `table` ("task", "strategy", "backend", "optimizer") against `options`. Throws ConfigError with
  // all problems. `model`: what is in force instead of the defaults.
  pl_config plugin(std::string_view table, std::span<const pl_option> options, const FindOwners& owners = {},
                   std::span<const ModelOption> model = {}) const;

  // A string of a plugin's table before there is a schema to check it with; path: made absolute. Empty: not
  // given, or no string.
  std::string unchecked_string(std::string_view key, bool path) const;

  // The file that this was loaded from, as the user wrote it; for a run's folder, the file in it.
  const std::string& file() const;
  // What the paths of a run's configuration are relative to; "": where this program was started.
  const std::string& paths_from() const;
  // Whether the file is what one stage of several keeps, so that the other stages are not in it.
  bool is_of_one_stage() const;
  // Every key: the core's, then those of the plugin tables. `plugins`: what plugin() returned, so that
  // their defaults are included.
  std::vector<Row> rows(std::span<const PluginConfig* const> plugins = {}) const;
  // All values in force, as TOML that loads as the same configuration. with_origins: each line ends with a
  // comment that says where its value comes from.
  std::string to_toml(bool with_origins, std::span<const PluginConfig* const> plugins = {}) const;

 private:
  friend Config load(const LoadArgs& args);
  Config(std::shared_ptr<const Sources> sources, std::string_view stage);
  void read_options() { options_ = std::make_shared<CoreOptions>(OptionReader(*this)); }

  std::shared_ptr<const Sources> sources_;
  std::string stage_;  // empty: not narrowed to a stage
  std::shared_ptr<const CoreOptions> options_;
};

// Reads, merges and checks everything except the plugins' own options. Throws ConfigError.
Config load(const LoadArgs& args);

// What a run keeps as config.toml: `resolved_toml` and where it was started, so that the file loads as the
// same run from anywhere, also after the folder was moved together with what it is in.
std::string stored_config(const Config& config, const std::string& resolved_toml,
                          const std::filesystem::path& run_folder);

// What the paths in the configuration that the run in a folder keeps are relative to; "" where that is where
// this program was started, and where it keeps none.
std::string paths_base_of_run(const std::filesystem::path& run_folder);

// One key whose value has changed since the run was started.
struct Difference {
  std::string key;
  std::string before;  // as TOML source; "" if there was none
  std::string now;
  Origin origin;    // of the new value
  bool may_change;  // it cannot change the result, or is meant to be changed (length of training, devices,
                    // ...)
  bool with_its_plugin;  // it came or went with a strategy or backend; a run may continue under another
  bool is_gone;          // no plugin has this option any more
  bool by_name;          // may change so long as --change names it,
  bool named;            // --change names it
};

// Compares the resolved config stored by a run (Config::to_toml of its stage) with the one in force. `where`:
// of the former, for messages.
std::vector<Difference> differences(std::string_view stored_toml, const Config& now,
                                    std::span<const PluginConfig* const> plugins = {},
                                    const std::string& where = "stored configuration");

// Whether two TOML sources are the same value; 1 and 1.0 are.
bool same_value(const std::string& a, const std::string& b);

// A TOML source as messages show it: "not set" where it is empty.
std::string or_not_set(const std::string& value);

// The values in a resolved configuration that was stored, as TOML source, by key. `file`: for messages.
std::map<std::string, std::string> stored_values(std::string_view stored_toml,
                                                 const std::string& file = "stored configuration");

// Who goes on from a run's state: the run itself, or another one that branches off from it.
enum class GoesOn { itself, another };

// Throws ConfigError if keys have changed that must not, or that --change does not name, with both values of
// each; returns the allowed differences. Another run has its own values of what --change could name. `where`
// names the stored config: "runs/x/checkpoints/step-200".
std::vector<Difference> require_resumable(std::string_view stored_toml, std::string_view where,
                                          const Config& now,
                                          std::span<const PluginConfig* const> plugins = {},
                                          GoesOn who = GoesOn::itself);

}  // namespace pipeline::config
