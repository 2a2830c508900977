// What the name of an evaluation's value says: see pl_evaluation_sink.
#pragma once

#include <optional>
#include <string_view>

namespace pipeline::plugins {

// No figure is made of it.
inline bool is_hidden(std::string_view name) { return name.starts_with('.'); }

inline constexpr std::string_view kUnitPrefix = ".unit/";

// Of ".unit/KEY/NAME" the KEY, which names a part of the data; nothing for other names.
inline std::optional<std::string_view> unit_of(std::string_view name) {
  if (!name.starts_with(kUnitPrefix)) return std::nullopt;
  name.remove_prefix(kUnitPrefix.size());
  const std::size_t end = name.find('/');
  if (end == name.npos || end == 0 || end + 1 == name.size()) return std::nullopt;
  return name.substr(0, end);
}

}  // namespace pipeline::plugins
