#include "core/train/plan/plan.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/plugins/host.hpp"

namespace pipeline::train {
namespace {

pl_error* nobody_answers() noexcept {
  return make_error(PL_ERROR_UNSUPPORTED, "the other processes are only planned");
}

// A strategy may be created in this group, as that needs no collective, but not used.
const pl_backend_api& planned_backend() {
  static const pl_backend_api api = [] {
    auto table = sized<pl_backend_api>();
    table.info = [](pl_comm*, pl_backend_info*) { return nobody_answers(); };
    table.all_reduce = [](pl_comm*, const pl_buffer*, uint32_t, pl_work**) { return nobody_answers(); };
    table.reduce_scatter = [](pl_comm*, const pl_buffer*, const pl_buffer*, const uint64_t*, uint32_t,
                              pl_work**) { return nobody_answers(); };
    table.all_gather = [](pl_comm*, const pl_buffer*, const pl_buffer*, const uint64_t*, pl_work**) {
      return nobody_answers();
    };
    table.broadcast = [](pl_comm*, const pl_buffer*, int32_t, pl_work**) { return nobody_answers(); };
    table.all_to_all = [](pl_comm*, const pl_buffer*, const pl_buffer*, const uint64_t*, const uint64_t*,
                          pl_work**) { return nobody_answers(); };
    table.barrier = [](pl_comm*, pl_work**) { return nobody_answers(); };
    table.wait = [](pl_comm*, pl_work*, pl_stream) { return nobody_answers(); };
    table.wait_host = [](pl_comm*, pl_work*, double) { return nobody_answers(); };
    table.abort = [](pl_comm*, pl_str) {};
    table.close = [](pl_comm*) {};
    return table;
  }();
  return api;
}

// The options of [strategy] as the user set them, where they are this plugin's.
pl_config options_of(const Session& session, const plugins::Plugin& plugin,
                     const std::optional<int64_t>& zero_stage) {
  config::LoadArgs load;
  load.sets = {"task.plugin=\"none\"", fmt::format("strategy.plugin=\"{}\"", plugin.name())};
  if (plugin.name() == session.strategy_plugin().name()) {
    const config::PluginConfig& own = session.strategy_config();
    for (const std::string& key : own.keys())
      // What is kept on the host is no matter of a plan, for which the strategy is made there.
      if (own.is_set(key) && !(key == "zero_stage" && zero_stage) && !key.starts_with("offload"))
        load.sets.push_back(fmt::format("strategy.{}={}", key, own.show(key)));
  }
  if (zero_stage) load.sets.push_back(fmt::format("strategy.zero_stage={}", *zero_stage));
  return config::load(load).plugin("strategy", plugin.options());
}

// strategy.shard_group where it is a number. All processes of a plan are on one host.
uint64_t shard_group_of(const pl_config& options) {
  const bool has_groups = std::ranges::find(options.keys(), "shard_group") != options.keys().end();
  const std::string text = has_groups ? options.get_string("shard_group") : "";
  uint64_t group = 0;
  std::from_chars(text.data(), text.data() + text.size(), group);
  return group;
}

}  // namespace

PlannedStrategy ask_strategy(Session& session, plugins::Registry& registry,
                             const StrategyQuestion& question) {
  const plugins::Plugin& plugin = registry.find(plugins::Kind::kStrategy, question.plugin);
  const auto processes = static_cast<int32_t>(question.batch.world_size);
  pl_run_info info = session.run_info();
  info.device = {PL_DEVICE_CPU, 0};  // where there is room beside the session's own strategy
  info.world_size = info.local_world_size = processes;
  info.parameter_dtype = info.compute_dtype = question.dtype;
  info.global_batch = question.batch.global_batch;
  info.micro_batch = question.batch.micro_batch;
  info.micro_batches = question.batch.micro_batches;
  pl_context context("strategy " + plugin.name());
  context.set_run_info(info);
  context.exchange = [processes](std::string_view, std::string_view mine) {
    return std::vector<std::string>(static_cast<size_t>(processes), std::string(mine));
  };
  context.open_group = [](std::string_view, const std::vector<int32_t>& members) {
    auto group = sized<pl_communicator>();  // of this rank, which is rank 0
    group.world_size = static_cast<int32_t>(members.size());
    group.api = &planned_backend();
    return group;
  };
  const pl_config options = options_of(session, plugin, question.zero_stage);
  auto group = sized<pl_communicator>();
  group.world_size = processes;
  group.api = &planned_backend();
  const plugins::Strategy strategy(plugin, context, &options, session.task().parameters(),
                                   session.rules().created(), processes > 1 ? &group : nullptr);
  if ((strategy.info().flags & PL_STRATEGY_NEEDS_UNIT_HOOKS) != 0 && !session.task().has_unit_hooks())
    fail(PL_ERROR_UNSUPPORTED, "it needs a task that declares its layers, and {} does not",
         session.task_plugin().label());
  return {.memory = memory_of(strategy),
          .checkpoint_bytes = checkpoint_bytes(strategy),
          .reduction_bits = strategy.info().reduction_dtype.bits,
          .shard_group = shard_group_of(options)};
}

std::optional<double> bytes_sent(const StrategyQuestion& question, const PlannedStrategy& strategy,
                                 uint64_t trainable_parameters) {
  const auto processes = static_cast<double>(question.batch.world_size),
             passes = static_cast<double>(question.batch.accumulation_steps());
  const double gradient = strategy.reduction_bits / 8.0, weight = question.dtype.bits / 8.0;
  const int64_t stage = question.zero_stage.value_or(0);
  if (question.batch.world_size == 1) return 0;
  double of_each = 0;
  if (question.plugin == "ddp")
    of_each = 2 * gradient;
  else if (question.plugin == "sharded" && stage == 1)
    of_each = gradient + weight;
  else if (question.plugin == "sharded" && stage == 2)
    of_each = passes * gradient + weight;
  else if (question.plugin == "sharded" && stage == 3)
    of_each = passes * (gradient + 2 * weight);
  else
    return std::nullopt;
  // Between groups: the sums of the shards, in float32, once a step.
  const double group = strategy.shard_group == 0 ? processes : static_cast<double>(strategy.shard_group),
               groups = processes / group, between = 2 * sizeof(float) / group * (groups - 1) / groups;
  return (of_each * (group - 1) / group + between) * static_cast<double>(trainable_parameters);
}

}  // namespace pipeline::train
