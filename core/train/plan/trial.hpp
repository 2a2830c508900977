// A session that trains as a configuration says, in this process alone, and leaves nothing behind: for
// `plan` and `find-lr`.
#pragma once

#include <filesystem>

#include "core/config/config.hpp"
#include "core/train/session/session.hpp"
#include "core/train/stages/stages.hpp"

namespace pipeline::train {

// The stage that is tried: the first of those of the command line that trains; `whole` itself where there is
// no [[stage]].
config::Config trial_stage(const config::Config& whole);

// A folder for temporary files, removed with this object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Takes a new session of `stage` so far that it can work, with the weights that a run would begin with.
// `scratch`: its run folder.
void open_for_trial(Session& session, const config::Config& whole, const config::Config& stage,
                    const ScratchFolder& scratch);

}  // namespace pipeline::train
