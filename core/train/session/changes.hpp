// What a user changed on the way (run --change): it stays in force in later launches, which do not name it. A
// checkpoint holds it; until the first one is there, changes.json does.
#pragma once

#include <filesystem>
#include <vector>

#include "core/checkpoint/manifest.hpp"
#include "core/config/config.hpp"
#include "core/observe/log.hpp"

namespace pipeline::train {

// The configuration with what was changed before the checkpoint with these contents, which was written under
// it. What the user has set to yet another value since is left for require_resumable() to judge. `log`: says
// where the file still has the value of the beginning; nullptr: nobody is told.
config::Config with_changes(config::Config config, const checkpoint::Contents& contents, observe::Log* log);

// The configuration with what was changed by the newest checkpoint in the run's folder, or with what waits
// for the first one, whatever is in its other files.
config::Config with_changes(config::Config config, const std::filesystem::path& folder);

// What was changed before the first checkpoint in the run's folder, without the rest of one.
checkpoint::Contents changed_before_first(const std::filesystem::path& folder);

// All that was changed, for a run that begins with `config`; --change counts from its first step on.
std::vector<checkpoint::Change> changes_from_start(const config::Config& config,
                                                   const std::filesystem::path& folder);

// Writes the run's changes.json, for people, and for a launch that comes before the first checkpoint.
void write_changes(const std::filesystem::path& folder, const std::vector<checkpoint::Change>& changes);

// Writes it for a run that another one of the same launch comes before; not where it has checkpoints.
void keep_changes_for_later(const config::Config& config, const std::filesystem::path& folder);

}  // namespace pipeline::train
