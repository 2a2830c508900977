// The environment as a value, and how it is read: an error names the variable and what it holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipeline::launch {

using Variables = std::map<std::string, std::string>;

// This process's own.
Variables own_variables();

// nullopt: not set, or empty.
std::optional<std::string> text(const Variables& variables, const std::string& name);

// A whole number of at least `least`; anything else is an Error (PL_ERROR_CONFIG).
std::optional<int32_t> number(const Variables& variables, const std::string& name, int32_t least = 0);
std::optional<uint16_t> port_number(const Variables& variables, const std::string& name);

// The same, of a variable that `because` needs: "torchrun sets RANK, but WORLD_SIZE is not set".
int32_t required_number(const Variables& variables, const std::string& name, int32_t least,
                        const std::string& because);

// "NAME=value" of these that are set, in one line, for errors.
std::string quote(const Variables& variables, const std::vector<std::string>& names);

[[noreturn]] void fail_config(const std::string& message);

}  // namespace pipeline::launch
