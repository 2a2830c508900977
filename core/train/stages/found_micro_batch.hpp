// train.micro_batch = "auto": the largest micro-batch that memory has room for, found at a run's start by
// real steps with growing micro-batches; from then on what its folder has recorded. Each is predicted before
// it is tried, since on the host the system would kill the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/config/config.hpp"
#include "core/train/session/session.hpp"
#include "core/train/stages/stages.hpp"

namespace pipeline::train {

inline constexpr double kMemoryMargin = 0.1;  // of the free memory, which is left alone

// The memory of one rank, on its device or in its process, in bytes.
struct RankMemory {
  uint64_t limit = 0;        // that it may use
  uint64_t fixed = 0;        // the part of the peak that does not depend on the micro-batch
  uint64_t activations = 0;  // the rest, of the micro-batch that was measured

  // The peak with micro-batches of `size`: the rest grows with it at most in proportion.
  uint64_t peak(uint64_t size, uint64_t measured) const;
};

// Which of `choices` to measure next: the largest one that all ranks have room for, at most twice the last
// one, or where there is none the next one. nullopt: no larger one fits.
std::optional<uint64_t> next_micro_batch(std::span<const uint64_t> choices, uint64_t measured,
                                         std::span<const RankMemory> ranks);

struct FoundMicroBatch {
  uint64_t size = 1;
  RankMemory memory;              // of the rank that is the nearest to its limit, with this size
  std::optional<uint64_t> other;  // the next larger one, for which there is no room
};

// All ranks together find the same; nullopt: a signal to any of them stopped it. The session is bound, and of
// no use afterwards. Throws where the memory does not suffice for the smallest one.
std::optional<FoundMicroBatch> find_micro_batch(Session& session);

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
