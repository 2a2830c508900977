// What all verbs share, and where a run lives.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/config/config.hpp"
#include "core/observe/log.hpp"
#include "core/plugins/registry.hpp"
#include "core/train/run/session.hpp"
#include "core/train/run/team.hpp"

namespace pipeline::train {

struct Workspace {
  const config::Config& config;
  plugins::Registry& registry;
  observe::Log& log;
  Team& team;
};

// Where a run (with stages: the folder that has theirs in it) lives: run.dir, or runs/NAME.
std::filesystem::path run_dir(const config::Config& config);

// A name to which a suffix can be added.
std::filesystem::path without_trailing_slash(const std::filesystem::path& path);

// For a session in `folder` that a signal stops.
SessionArgs session_args(const Workspace& workspace, uint32_t purpose, const std::filesystem::path& folder);

}  // namespace pipeline::train
