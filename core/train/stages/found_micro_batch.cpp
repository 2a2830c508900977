#include "core/train/stages/found_micro_batch.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <new>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <malloc.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/observe/format.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/session/schedule.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/telemetry/costs.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kTrialMicroBatches = 2;             // of a trial's step, at most: gradients are added, too
constexpr uint64_t kMostCompared = uint64_t{1} << 20;  // samples, in the search for the longest

// `count` samples of training: the longest ones first, or where the task does not tell, evenly spread.
std::vector<uint64_t> trial_samples(Session& session, uint64_t count) {
  plugins::Task& task = session.task();
  const uint64_t samples = sampler_options(session).samples;  // throws where there are none
  std::vector<uint64_t> ids(std::min(count, samples));
  for (uint64_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<uint64_t>(static_cast<double>(i) / static_cast<double>(ids.size()) *
                                   static_cast<double>(samples));
  if (!task.has_sample_costs()) return ids;
  std::vector<uint64_t> all(std::max<uint64_t>(ids.size(), std::min(samples, kMostCompared)));
  std::iota(all.begin(), all.end(), 0);
  std::vector<double> costs(all.size());
  task.sample_costs(PL_SPLIT_TRAIN, all, costs);
  const auto longer = [&](uint64_t a, uint64_t b) { return costs[a] > costs[b]; };
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(ids.size()), all.end(), longer);
  std::copy_n(all.begin(), ids.size(), ids.begin());
  return ids;
}

bool is_out_of_memory(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         (known != nullptr && known->code() == PL_ERROR_OUT_OF_MEMORY);
}

class Search {
 public:
  explicit Search(Session& session)
      : session_(session),
        device_(session.run_info().device),
        choices_(session.plan().micro_batch_choices()),
        ids_(trial_samples(session, choices_.back() * kTrialMicroBatches)),
        steps_(session) {}

  std::optional<FoundMicroBatch> run() {
    ProcessGroup& processes = session_.processes();
    uint64_t size = choices_.front();
    step(size);  // libraries load code and set up buffers at their first use: these belong to the process
    give_back_unused(session_);
    limit_ = limit();
    processes.exchange("memory", limit_);  // nobody takes more of it before all have looked
    FoundMicroBatch found;
    for (std::optional<uint64_t> next = size; next;) {
      const std::optional<RankMemory> mine = measure(*next);
      if (!mine) return with_limit(found, *next);
      const auto all = processes.exchange("micro-batch",
                                          {mine->limit, mine->fixed, mine->activations, Signals::received()});
      std::vector<RankMemory> ranks;
      for (const nlohmann::json& rank : all) {
        if (rank[3] != 0) return std::nullopt;
        ranks.push_back({.limit = rank[0], .fixed = rank[1], .activations = rank[2]});
      }
      const RankMemory& nearest = *std::ranges::max_element(ranks, {}, [&](const RankMemory& rank) {
        return static_cast<double>(rank.peak(*next, *next)) / static_cast<double>(rank.limit);
      });
      // More than was predicted; the smallest one is tried without a prediction.
      if (*next != size && nearest.peak(*next, *next) > nearest.limit) return with_limit(found, *next);
      found = {.size = *next, .memory = nearest};
      next = next_micro_batch(choices_, *next, ranks);
    }
    const auto other = std::ranges::upper_bound(choices_, found.size);
    return other == choices_.end() ? found : with_limit(found, *other);
  }

 private:
  static FoundMicroBatch with_limit(FoundMicroBatch found, uint64_t other) {
    found.other = other;
    return found;
  }

  uint64_t accumulation(uint64_t size) const {
    const BatchPlan& plan = session_.plan();
    return (plan.global_batch / size + plan.world_size - 1) / plan.world_size;
  }

  uint64_t limit() const {
    const auto left = [](uint64_t free) {
      return static_cast<uint64_t>((1 - kMemoryMargin) * static_cast<double>(free));
    };
    if (device_.type == PL_DEVICE_CUDA) {
      const launch::DeviceMemory memory = launch::cuda_memory();
      return memory.used + left(memory.total - memory.used);
    }
    return launch::host_memory() + left(launch::available_host_memory() /
                                        static_cast<uint64_t>(session_.run_info().local_world_size));
  }

  TrialStep step(uint64_t size, const std::function<void()>& after_micro_batch = {}) {
    const uint64_t samples = std::min<uint64_t>(size, ids_.size());
    std::vector<std::vector<uint64_t>> micro_batches(std::min(accumulation(size), kTrialMicroBatches));
    size_t next = 0;
    for (std::vector<uint64_t>& micro_batch : micro_batches)
      for (uint64_t i = 0; i < samples; ++i) micro_batch.push_back(ids_[next++ % ids_.size()]);
    return steps_.run(micro_batches, 0, 0, [&] {
      session_.processes().peers().progress();
      if (after_micro_batch) after_micro_batch();
    });
  }

  // nullopt: it does not fit. Where others wait for this rank in the middle of the step, that ends the run.
  std::optional<RankMemory> measure(uint64_t size) {
    give_back_unused(session_);
    launch::restart_peak_host_memory();
    MemoryForecast forecast(session_, copies_checkpoints(session_.config(), 0));
    try {
      const TrialStep done = step(size, [&] { forecast.micro_batch(); });
      // What an allocator keeps of a step before is in use from the beginning.
      fixed_ = std::min(fixed_, forecast.peak() - forecast.activations());
      RankMemory memory{.limit = limit_, .fixed = fixed_, .activations = forecast.peak() - fixed_};
      if (device_.type == PL_DEVICE_CPU) memory.activations += loaded_ahead(done.loaded_bytes, size);
      return memory;
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error) || size == choices_.front()) throw;
      if (session_.run_info().world_size == 1) return std::nullopt;
      fail(PL_ERROR_CONFIG,
           "train.micro_batch = \"auto\": a trial step with micro-batches of {} ran out of memory, less of "
           "which was predicted: {}: write train.micro_batch = {}, or less",
           size, error.what(), *std::prev(std::ranges::lower_bound(choices_, size)));
    }
  }

  // Batches that wait in memory during a run, besides those of the trial's step.
  uint64_t loaded_ahead(uint64_t bytes, uint64_t size) const {
    const uint64_t tried = std::min(accumulation(size), kTrialMicroBatches),
                   ahead = loader_options(session_, accumulation(size)).ahead;
    return bytes / tried * (ahead - std::min(ahead, tried));
  }

  Session& session_;
  const pl_device device_;
  const std::vector<uint64_t> choices_;
  const std::vector<uint64_t> ids_;
  TrialSteps steps_;
  uint64_t limit_ = 0, fixed_ = UINT64_MAX;
};

namespace fs = std::filesystem;

constexpr const char* kKey = "train.micro_batch";

// The micro-batch that a run's folder or a checkpoint has recorded, as TOML source; empty: none.
std::string recorded_in(const fs::path& folder) {
  const bool is_checkpoint = folder.parent_path().filename() == "checkpoints";
  std::ifstream file((is_checkpoint ? folder.parent_path().parent_path() : folder) / "config.toml",
                     std::ios::binary);
  const auto values = config::stored_values(rest_of(file));
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
        "run.reproducible = true: where memory is another, \"auto\" may find another micro-batch, which "
        "changes sums and dropout: " +
        same);
  if (peak > memory.limit)
    session.log().warning(
        "not even that leaves as much free memory as it should: make the model or the samples smaller");
}

}  // namespace

uint64_t RankMemory::peak(uint64_t size, uint64_t measured) const {
  return fixed + static_cast<uint64_t>(static_cast<double>(activations) * static_cast<double>(size) /
                                       static_cast<double>(measured));
}

std::optional<uint64_t> next_micro_batch(std::span<const uint64_t> choices, uint64_t measured,
                                         std::span<const RankMemory> ranks) {
  const auto fits = [&](uint64_t size) {
    return std::ranges::all_of(
        ranks, [&](const RankMemory& rank) { return rank.peak(size, measured) <= rank.limit; });
  };
  std::optional<uint64_t> next;
  for (const uint64_t size : choices)
    if (size > measured && (size <= 2 * measured || !next) && fits(size)) next = size;
  return next;
}

std::optional<FoundMicroBatch> find_micro_batch(Session& session) { return Search(session).run(); }

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
