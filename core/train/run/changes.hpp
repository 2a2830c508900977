// What a user changed on the way (run --change): it stays in force in later launches, which do not name it.
#pragma once

#include "core/checkpoint/manifest.hpp"
#include "core/config/config.hpp"
#include "core/observe/log.hpp"
#include "core/train/run/run_folder.hpp"

namespace pipeline::train {

// The configuration with what was changed before the checkpoint with these contents, which was written under
// it. What the user has set to yet another value since is left for require_resumable() to judge. `log`: says
// where the file still has the value of the beginning; nullptr: nobody is told.
config::Config with_changes(config::Config config, const checkpoint::Contents& contents, observe::Log* log);

// The same by the newest checkpoint in the folder, whatever is in its other files.
config::Config with_changes(config::Config config, const RunFolder& folder);

}  // namespace pipeline::train
