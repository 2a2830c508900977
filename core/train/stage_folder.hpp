// The folder of a run or a stage, as all its ranks open it and leave it.
#pragma once

#include <filesystem>
#include <functional>

#include "core/train/outcome.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/workspace.hpp"

namespace pipeline::train {

// Rank 0 makes and locks the folder; the others must see the very same one. `fresh`: an older run in it is moved aside, once a launch.
RunFolder open_folder(const Workspace& workspace, const std::filesystem::path& path, bool fresh);

// `work` in a folder from which `fresh` may have moved an older run aside: it comes back where nothing was begun.
Outcome in_folder(RunFolder& folder, observe::Log& log, const std::function<Outcome()>& work);

}  // namespace pipeline::train
