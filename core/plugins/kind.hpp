#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "pipeline.h"

namespace pipeline::plugins {

enum class Kind : uint32_t {
  kTask = PL_PLUGIN_TASK,
  kStrategy = PL_PLUGIN_STRATEGY,
  kBackend = PL_PLUGIN_BACKEND
};

inline constexpr std::array kKinds{Kind::kTask, Kind::kStrategy, Kind::kBackend};

// "task"; also the configuration table that names such a plugin.
constexpr std::string_view kind_name(Kind kind) {
  return kind == Kind::kTask ? "task" : kind == Kind::kStrategy ? "strategy" : "backend";
}

constexpr std::optional<Kind> kind_called(std::string_view name) {
  for (const Kind kind : kKinds)
    if (kind_name(kind) == name) return kind;
  return std::nullopt;
}

// The sub-folder of a plugin folder.
constexpr std::string_view kind_folder(Kind kind) {
  return kind == Kind::kTask ? "tasks" : kind == Kind::kStrategy ? "strategies" : "backends";
}

}  // namespace pipeline::plugins
