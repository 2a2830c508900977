// The environment as a value, and functions to read it. Errors name the variable and its value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipeline::launch {

using Variables = std::map<std::string, std::string>;

// This process's environment.
Variables own_variables();

// nullopt: not set, or empty.
std::optional<std::string> text(const Variables& variables, const std::string& name);

// Returns an integer of at least `least`; throws Error (PL_ERROR_CONFIG) for anything else.
std::optional<int32_t> number(const Variables& variables, const std::string& name, int32_t least = 0);
std::optional<uint16_t> port_number(const Variables& variables, const std::string& name);

// The same for a variable that `because` requires: "torchrun sets RANK, but WORLD_SIZE is not set".
int32_t required_number(const Variables& variables, const std::string& name, int32_t least,
                        const std::string& because);

// "NAME=value" for each of `names` that is set, in one line, for errors.
std::string quote(const Variables& variables, const std::vector<std::string>& names);

[[noreturn]] void fail_config(const std::string& message);

}  // namespace pipeline::launch
