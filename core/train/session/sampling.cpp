#include "core/train/session/sampling.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace pipeline::train {

Sampler::Options sampler_options(Session& session) {
  const config::Config& config = session.config();
  plugins::Task& task = session.task();
  Sampler::Options options{.samples = task.sample_count(PL_SPLIT_TRAIN),
                           .seed = session.run_info().seed,
                           .shuffle = config.options().loader.shuffle,
                           .window_steps = config.options().loader.group_window};
  if (options.samples == UINT64_MAX)
    throw Error(PL_ERROR_UNSUPPORTED,
                fmt::format("{} has unbounded training data, which this version cannot train on: use a task "
                            "or task option with a fixed number of samples",
                            session.task_plugin().label()));
  if (options.samples == 0)
    throw Error(PL_ERROR_CONFIG, fmt::format("{} has no training samples", session.task_plugin().label()));
  if (!config.options().loader.group_by_length) return options;
  if (!task.has_sample_costs())
    throw config.error("loader.group_by_length", fmt::format("{} does not report sample lengths: use false",
                                                             session.task_plugin().label()));
  options.costs = sample_costs(task);
  return options;
}

Sampler::CostFunction sample_costs(plugins::Task& task) {
  return [&task](std::span<const uint64_t> ids, std::span<double> out) {
    task.sample_costs(PL_SPLIT_TRAIN, ids, out);
  };
}

Prefetcher::Options loader_options(const Session& session, uint64_t accumulation_steps) {
  return {.split = PL_SPLIT_TRAIN,
          .purpose = PL_PURPOSE_TRAIN,
          .workers = session.workers(),
          .ahead = accumulation_steps + session.workers() * session.options().loader.prefetch};
}

uint64_t total_steps(const config::Config& config, const Sampler& sampler) {
  const auto steps = config.options().train.max_steps, epochs = config.options().train.max_epochs;
  const uint64_t total = steps.value_or(0);
  if (!epochs) return total;
  const uint64_t in_epochs = *epochs * sampler.steps_per_epoch();
  return total == 0 ? in_epochs : std::min(total, in_epochs);
}

}  // namespace pipeline::train
