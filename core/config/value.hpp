#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pipeline::config {

// A value that was checked against its option. Paths are kept as they were written.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                           std::vector<std::string>>;

// TOML source that reads back as exactly this value.
std::string to_toml(const Value& value);
std::string to_toml(std::string_view text);
std::string to_toml(double number);

}  // namespace pipeline::config
