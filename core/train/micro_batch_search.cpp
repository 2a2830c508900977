#include "core/train/micro_batch_search.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/session/sampling.hpp"
#include "core/train/telemetry/memory.hpp"
#include "core/train/trial_steps.hpp"

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
      found = {.size = *next, .memory = nearest, .other = std::nullopt};
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
      throw Error(
          PL_ERROR_CONFIG,
          fmt::format("train.micro_batch = \"auto\": a trial step with micro-batches of {} ran out of "
                      "memory, less of which was predicted: {}: write train.micro_batch = {}, or less",
                      size, error.what(), *std::prev(std::ranges::lower_bound(choices_, size))));
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

}  // namespace pipeline::train
