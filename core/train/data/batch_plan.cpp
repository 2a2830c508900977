#include "core/train/data/batch_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace pipeline::train {
namespace {

constexpr uint64_t kDefaultGlobalBatch = 32, kDefaultMicroBatch = 8;

// The multiples of `step` on both sides of `value`, at least one step: "8 or 16", or "8" where both are the
// same.
std::string nearest_multiples(uint64_t value, uint64_t step) {
  const uint64_t below = value / step * step, above = below + step;
  return below == 0 ? fmt::format("{}", above) : fmt::format("{} or {}", below, above);
}

uint64_t largest_divisor(uint64_t value, uint64_t most) {
  uint64_t divisor = std::min(value, most);
  while (value % divisor != 0) --divisor;
  return divisor;
}

// The divisors of `value` on both sides of `near`.
std::string nearest_divisors(uint64_t value, uint64_t near) {
  const uint64_t below = largest_divisor(value, near);
  uint64_t above = std::min(near, value);
  while (value % above != 0) ++above;
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

}  // namespace

BatchPlan BatchPlan::make(const config::Config& config, uint64_t world) {
  const config::TrainOptions& train = config.options().train;
  const auto& [micro_batch, is_auto] = train.micro_batch;
  const auto global_batch = train.global_batch, per_device = train.batch_per_device,
             accumulation = train.accumulation_steps;
  if (global_batch && per_device)
    throw config.error("train.batch_per_device",
                       "is given together with train.global_batch, which already fixes the samples per step: "
                       "remove one of them");
  const bool is_default = !micro_batch && !is_auto && !accumulation;
  if ((micro_batch || is_auto) && accumulation)
    throw config.error(
        "train.accumulation_steps",
        "is given together with train.micro_batch, and each follows from the other: remove one of them");
  if (per_device && config.options().run.reproducible)
    throw config.error("train.batch_per_device",
                       "makes the batch grow with the number of devices, which run.reproducible = true "
                       "cannot allow: give train.global_batch");

  BatchPlan plan;
  plan.world_size = world;
  plan.global_batch = per_device ? *per_device * world : global_batch.value_or(kDefaultGlobalBatch);
  // Defaults give way to the number of devices, but where the same bits on any number of them are promised.
  const bool gives_way = !config.options().run.reproducible;
  if (!per_device && !global_batch && gives_way && plan.global_batch < world) {
    plan.gave_way = fmt::format(
        "train.global_batch is {} here, one sample a device, and not the default of {}: it decides what is "
        "learnt, so set it",
        world, plan.global_batch);
    plan.global_batch = world;
  }
  const char* batch_key = per_device ? "train.batch_per_device" : "train.global_batch";
  const uint64_t batch = plan.global_batch;

  if (accumulation) {
    const uint64_t parts = *accumulation * world;
    if (batch % parts != 0)
      throw config.error("train.accumulation_steps",
                         fmt::format("{} accumulation steps on {} device{} need a global batch that {} "
                                     "divides, and it is {}: use train.global_batch = {}",
                                     *accumulation, world, world == 1 ? "" : "s", parts, batch,
                                     nearest_multiples(batch, parts)));
    plan.micro_batch = batch / parts;
  } else if (is_auto) {
    plan.micro_batch = plan.largest_choice(kDefaultMicroBatch);
  } else {
    const uint64_t own = per_device ? *per_device : batch;
    plan.micro_batch = micro_batch.value_or(largest_divisor(own, kDefaultMicroBatch));
    if (batch % plan.micro_batch != 0)
      throw config.error("train.micro_batch",
                         fmt::format("the global batch of {} is not a multiple of the micro-batch of {}: use "
                                     "train.micro_batch = {}, or train.global_batch = {}",
                                     batch, plan.micro_batch, nearest_divisors(batch, plan.micro_batch),
                                     nearest_multiples(batch, plan.micro_batch)));
    const uint64_t wanted = std::min(own, kDefaultMicroBatch);
    if (is_default && plan.micro_batch < wanted && plan.gave_way.empty())
      plan.gave_way = fmt::format(
          "train.micro_batch is {} here, as the default of {} does not divide the batch of {}: a batch with "
          "a larger divisor is faster",
          plan.micro_batch, wanted, batch);
    if (is_default && gives_way && batch >= world && batch / plan.micro_batch < world) {
      const uint64_t usual = plan.micro_batch;
      plan.micro_batch = plan.largest_choice(usual);
      if (plan.gave_way.empty())
        plan.gave_way = fmt::format(
            "train.micro_batch is {0} here, so that each of {1} devices has one, and not the default of {2}; "
            "dropout and rounding depend on it: for the same run on fewer devices write train.micro_batch = "
            "{0}",
            plan.micro_batch, world, usual);
    }
  }
  plan.micro_batches = batch / plan.micro_batch;
  if (plan.micro_batches < world) {
    const std::string smaller =
        batch < world ? ""
                      : fmt::format("train.micro_batch = {}, or ", largest_divisor(batch, batch / world));
    throw config.error(
        batch_key,
        fmt::format("{} samples in micro-batches of {} are {} for {} devices, and each needs at least one: "
                    "use {}train.global_batch = {} or more{}",
                    batch, plan.micro_batch,
                    plan.micro_batches == 1 ? "one" : fmt::format("{}", plan.micro_batches), world, smaller,
                    world * (gives_way && is_default ? 1 : plan.micro_batch),
                    !gives_way && is_default ? "; with run.reproducible = true the default does not follow "
                                               "the devices, as another micro-batch gives other bits"
                                             : ""));
  }
  return plan;
}

uint64_t BatchPlan::largest_choice(uint64_t most) const {
  uint64_t largest = 1;
  for (const uint64_t size : micro_batch_choices())
    if (size <= most) largest = size;
  return largest;
}

std::vector<uint64_t> BatchPlan::micro_batch_choices() const {
  const uint64_t share = global_batch / world_size,
                 whole = global_batch % world_size == 0 ? share : global_batch;
  std::vector<uint64_t> choices{1};
  for (uint64_t size = 2; size <= share; ++size)
    if (whole % size == 0) choices.push_back(size);
  return choices;
}

std::string BatchPlan::describe() const {
  const uint64_t steps = accumulation_steps();
  if (steps * world_size != micro_batches)
    return fmt::format(
        "{} samples = {} micro-batches of {}, at most {} on each of {} devices: {} samples a device",
        global_batch, micro_batches, micro_batch, steps, world_size, steps * micro_batch);
  return fmt::format(
      "{} samples = micro-batch {} x {} accumulation step{} x {} device{}: {} samples a device", global_batch,
      micro_batch, steps, steps == 1 ? "" : "s", world_size, world_size == 1 ? "" : "s", steps * micro_batch);
}

std::vector<std::optional<uint64_t>> BatchPlan::micro_batches_of(uint64_t rank, uint32_t order) const {
  const uint64_t steps = accumulation_steps();
  std::vector<std::optional<uint64_t>> mine(steps);
  for (uint64_t i = 0; i < steps; ++i) {
    const uint64_t m = order == PL_ORDER_INTERLEAVED ? i * world_size + rank : rank * steps + i;
    if (m < micro_batches) mine[i] = m;
  }
  return mine;
}

}  // namespace pipeline::train
