#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/error.hpp"
#include "core/config/option.hpp"
#include "pipeline.h"

namespace pipeline::config {

// One key of a schema with the value in force.
struct Setting {
  pl_option option;
  std::optional<Value> value;  // nullopt: not given, and the option has no default
  Origin origin;
};

// Validated options by key. Reading a key that is not in the schema, or as the wrong type, is a bug in the
// program: throws Error with PL_ERROR_FAILED. Reading a key without a value (not given, no default) throws
// a ConfigError that says so; the find_ functions return nullopt instead. Immutable: safe to read from any
// thread.
class Settings {
 public:
  bool get_bool(std::string_view key) const;
  int64_t get_int(std::string_view key) const;
  double get_float(std::string_view key) const;
  const std::string& get_string(std::string_view key) const;  // paths: as written
  const std::vector<int64_t>& get_int_list(std::string_view key) const;
  const std::vector<double>& get_float_list(std::string_view key) const;
  const std::vector<std::string>& get_string_list(std::string_view key) const;  // paths: as written
  std::vector<std::string> get_path_list(std::string_view key) const;

  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;
  // Returns an absolute path; "" stays "". A leading `~/` is the home folder.
  std::optional<std::string> find_path(std::string_view key) const;

  // Whether the value of an integer is "auto", which the find_ functions treat as none.
  bool is_auto(std::string_view key) const;
  // Whether the user set it (in a file or by --set); false: the default, if any, applies, or what a model
  // says (ModelOption).
  bool is_set(std::string_view key) const;
  // Whether there is a value, given or default.
  bool has_value(std::string_view key) const;
  const Origin& origin(std::string_view key) const;
  // The value in force as TOML source, "" if there is none.
  std::string show(std::string_view key) const;
  // An error to throw: `file:line: key = value: problem`. Write `problem` as "what is wrong: what to do".
  ConfigError error(std::string_view key, std::string_view problem) const;

  // All keys in the schema's order, without the prefix.
  const std::vector<std::string>& keys() const { return keys_; }
  const Setting& setting(std::string_view key) const;
  // "" for the core's own options, "task." for those of a task's plugin.
  const std::string& prefix() const { return prefix_; }

 protected:
  Settings(std::string prefix, std::string file) : prefix_(std::move(prefix)), file_(std::move(file)) {}
  void insert(Setting setting);
  // Replaces a setting that is there.
  void replace(Setting setting);

 private:
  // The value, or nullptr if there is none.
  template <class T>
  const T* find(std::string_view key, uint32_t type) const;
  template <class T>
  const T& get(std::string_view key, uint32_t type) const;

  std::string prefix_;
  std::string file_;  // for messages about keys that are not set
  std::vector<std::string> keys_;
  std::map<std::string, Setting, std::less<>> settings_;
};

// Converts a path like Settings::find_path; `base`: as Origin has it. Throws ConfigError if `~/` is used and
// there is no home folder.
std::string absolute_path(const std::string& path, const std::string& base = "");

// The options of one plugin, which reads them through pl_host.config_*: its table (`[task]`, `[strategy]`,
// `[backend]`), checked against the schema that it publishes. Keys are those of the schema
// ("model.n_head").
class PluginConfig : public Settings {
 public:
  // `prefix`: "task."; `file`: as the user wrote it, for messages; `settings`: already checked.
  PluginConfig(std::string prefix, std::string file, std::vector<Setting> settings);
  PluginConfig(PluginConfig&&) = default;
  PluginConfig& operator=(PluginConfig&&) = default;

  // The values as the ABI returns them: pointers are valid as long as this object lives, even if it is moved.
  pl_str string(std::string_view key) const;
  std::span<const pl_str> string_list(std::string_view key) const;

 private:
  // Strings and paths (made absolute) of one key.
  struct Strings {
    std::vector<std::string> storage;
    std::vector<pl_str> views;
  };

  std::map<std::string, std::unique_ptr<Strings>, std::less<>> strings_;
};

// Sets the config_* slots of the host's table.
void fill_config_slots(pl_host& host);

}  // namespace pipeline::config

// The ABI's opaque type is this C++ type.
struct pl_config : pipeline::config::PluginConfig {
  using PluginConfig::PluginConfig;
};
