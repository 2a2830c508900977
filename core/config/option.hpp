#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/abi_values.hpp"
#include "pipeline.h"

namespace pipeline::config {

// A value that has been checked against its option. Paths are kept as written; an integer may be a word of
// its option's instead, as a string.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                           std::vector<std::string>>;

// TOML source that reads back as exactly this value.
std::string to_toml(const Value& value);
std::string to_toml(std::string_view text);
std::string to_toml(double number);

// A value as written, before it is checked against an option.
struct Literal {
  enum class Kind { kBool, kInt, kFloat, kString, kArray, kOther };

  Kind kind = Kind::kOther;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string text;  // of a string; of kOther: its TOML source
  std::vector<Literal> items;
  std::string what;   // of kOther: "a date"
  std::string typed;  // what follows the = of --set, as typed; empty in files

  static Literal of_string(std::string text);
};

// "an integer", "a string", "a date".
std::string kind_name(const Literal& literal);
// TOML source.
std::string to_toml(const Literal& literal);
// TOML source for messages: long values are cut.
std::string shown(const Literal& literal);
// Whether the values are equal; 1 and 1.0 are.
bool same(const Literal& a, const Literal& b);
// If `text` is longer than `limit` bytes, cuts it between UTF-8 characters and adds "...".
std::string shorten(std::string text, size_t limit);

// "integer", "list of strings".
std::string type_name(uint32_t type);
bool is_list(uint32_t type);
uint32_t element_type(uint32_t type);  // of a list; other types: the type itself

// The allowed values, for people: "auto, fp32 or bf16", ">= 1", "0 <= x < 1", "".
std::string range_text(const pl_option& option);

// `key = "unset"` removes a value set in an extended file. Allowed only where it cannot be mistaken for a
// value: the option has no default, is not required, and is not a string.
inline constexpr std::string_view kUnset = "unset";
bool can_be_unset(const pl_option& option);

// The value converted to the option's type, or what is wrong with it ("problem: remedy").
struct Checked {
  std::optional<Value> value;
  std::string problem;
};
Checked check(const pl_option& option, const Literal& literal);

// nullopt if the option has no default. Throws Error (PL_ERROR_FAILED) if the default is not valid.
std::optional<Value> default_value(const pl_option& option);

// Every option of the core itself, by full key ("train.max_steps"), in display order. Static.
std::span<const pl_option> core_options();

// A flag of the core's own options: what such an option does it does from a step on, so a continued run may
// change it where the user names it (--change).
inline constexpr uint32_t kChangesByName = 1u << 31;

// The tables whose keys, except the core's own, belong to a plugin.
inline constexpr std::string_view kPluginTables[] = {"task", "strategy", "backend", "optimizer"};

// What describes the whole run, so that it cannot differ between its stages.
inline bool belongs_to_run(std::string_view key) {
  return key.starts_with("launch.") || key.starts_with("plugins.") || key == "run.name" || key == "run.dir";
}

}  // namespace pipeline::config
