#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/abi_values.hpp"
#include "core/config/value.hpp"
#include "pipeline.h"

namespace pipeline::config {

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
