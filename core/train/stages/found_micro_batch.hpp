// train.micro_batch = "auto" in a run: found at its start, and from then on what its folder has recorded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/config/config.hpp"
#include "core/train/stages/stages.hpp"

namespace pipeline::train {

// `stage` with the micro-batch that the run in `folder` (its own folder, or one of its checkpoints) has
// recorded, where `stage` leaves it to be found, and the processes can use that one; `stage` itself
// otherwise. `world`: how many share a global batch. All ranks together.
config::Config with_recorded_micro_batch(ProcessGroup& processes, const config::Config& stage,
                                         const std::filesystem::path& folder, uint64_t world);

// `stage` with the recorded micro-batch, or one that trial steps find, where it leaves that to be found. The
// trial has a session of its own, so nothing of it is left in the run. `weights`: as for train_stage().
// nullopt: stopped by a signal. All ranks together.
std::optional<config::Config> with_found_micro_batch(const Workspace& workspace, const RunFolder& folder,
                                                     const config::Config& stage, const std::string& weights);

}  // namespace pipeline::train
