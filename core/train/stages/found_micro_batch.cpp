#include "core/train/stages/found_micro_batch.hpp"

#include <malloc.h>

#include <charconv>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/observe/format.hpp"
#include "core/train/micro_batch_search.hpp"
#include "core/train/session/rank_check.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/stages/failure.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "train.micro_batch";

// The micro-batch that a run's folder or a checkpoint has recorded, as TOML source; empty: none.
std::string recorded_in(const fs::path& folder) {
  const bool is_checkpoint = folder.parent_path().filename() == "checkpoints";
  std::ifstream file((is_checkpoint ? folder.parent_path().parent_path() : folder) / "config.toml",
                     std::ios::binary);
  const auto values = config::stored_values(std::string(std::istreambuf_iterator<char>(file), {}));
  const auto found = values.find(kKey);
  return found == values.end() ? "" : found->second;
}

// `stage` with the recorded one; nullopt: nothing is recorded that `world` processes could use.
std::optional<config::Config> with_usable(const config::Config& stage, const std::string& recorded,
                                          uint64_t world) {
  int64_t size = 0;
  const char* end = recorded.data() + recorded.size();
  if (const auto read = std::from_chars(recorded.data(), end, size);
      read.ec != std::errc() || read.ptr != end)
    return std::nullopt;
  config::Config found = stage.with_found(kKey, size);
  try {
    BatchPlan::make(found, world);
  } catch (const config::ConfigError&) {
    return std::nullopt;
  }
  return found;
}

void tell(const Session& session, const FoundMicroBatch& found) {
  using observe::human_bytes;
  const RankMemory& memory = found.memory;
  const uint64_t peak = memory.peak(found.size, found.size);
  const bool on_device = session.run_info().device.type == PL_DEVICE_CUDA;
  std::string text = fmt::format(
      "{:<11}micro-batch {}, found for \"auto\": it takes {} at most of the {} that {} ({:.0f}% of the free "
      "memory is left alone)",
      "batch", found.size, human_bytes(peak), human_bytes(memory.limit),
      on_device ? "may be in use on the device, by all processes" : "a process may use here",
      100 * kMemoryMargin);
  if (found.other) {
    const uint64_t predicted = memory.peak(*found.other, found.size);
    text += fmt::format(", and {} would take {}", *found.other,
                        predicted > memory.limit ? human_bytes(predicted) : "more than that");
  }
  const std::string same = fmt::format("for the same run elsewhere write {} = {}", kKey, found.size);
  const bool reproducible = (session.run_info().flags & PL_RUN_REPRODUCIBLE) != 0;
  session.log().info(reproducible ? text : text + "; " + same);
  if (reproducible)
    session.log().warning(
        "run.reproducible = true: where memory is another, \"auto\" may find another "
        "micro-batch, which changes sums and dropout: " +
        same);
  if (peak > memory.limit)
    session.log().warning(
        "not even that leaves as much free memory as it should: make the model or the samples smaller");
}

}  // namespace

config::Config with_recorded_micro_batch(ProcessGroup& processes, const config::Config& stage,
                                         const fs::path& folder, uint64_t world) {
  if (!stage.options().train.micro_batch.is_auto) return stage;
  const std::string recorded =
      processes.on_first("looking for the recorded micro-batch", [&] { return recorded_in(folder); });
  return with_usable(stage, recorded, world).value_or(stage);
}

std::optional<config::Config> with_found_micro_batch(const Workspace& workspace, const RunFolder& folder,
                                                     const config::Config& stage,
                                                     const std::string& weights) {
  ProcessGroup& processes = workspace.processes;
  config::Config before = with_recorded_micro_batch(processes, stage, folder.path(),
                                                    static_cast<uint64_t>(processes.world().size));
  if (!before.options().train.micro_batch.is_auto) return before;

  std::optional<FoundMicroBatch> found;
  {
    const Origin origin = find_common_origin(before, workspace.log, processes, folder, weights);
    bool stepping = false;  // a rank that stopped by itself would leave the others waiting
    SessionArgs args = session_args(workspace, PL_PURPOSE_TRAIN, folder.path(), values_of(origin));
    args.rehearsal = true;
    args.cancelled = [&stepping] { return !stepping && Signals::received() != 0; };
    // A session with the smallest one: sums along a tree (run.reproducible) take the most with it.
    Session session(stage.with_found(kKey, 1), workspace.registry, workspace.log, args);
    const Outcome outcome = guard_work(
        session, [] { return "finding the micro-batch"; },
        [&] {
          if (processes.stopped([&] { session.open_task(origin.checkpoint()); })) return Outcome::interrupted;
          require_same_on_all_ranks(session);
          session.create_strategy();
          load_weights(session, {});
          session.bind();
          processes.at("finding the micro-batch", 0);
          stepping = true;
          found = find_micro_batch(session);
          if (found) tell(session, *found);
          return found ? Outcome::finished : Outcome::interrupted;
        });
    if (outcome == Outcome::interrupted) return std::nullopt;
  }
  ::malloc_trim(0);
  launch::restart_peak_host_memory();  // the run's own comes
  return stage.with_found(kKey, static_cast<int64_t>(found->size));
}

}  // namespace pipeline::train
