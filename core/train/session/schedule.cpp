#include "core/train/session/schedule.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string>

#include <fmt/format.h>

#include "core/base/fail.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kMostSteps = 100;  // more make a file that nothing opens

LrScaling scaling_of(const config::ScheduleOptions& options) {
  const std::string& name = options.lr_scaling;
  return name == "linear" ? LrScaling::linear : name == "sqrt" ? LrScaling::sqrt : LrScaling::none;
}

ScheduleKind kind_of(const config::ScheduleOptions& options) {
  const std::string& name = options.kind;
  return name == "linear"         ? ScheduleKind::linear
         : name == "constant"     ? ScheduleKind::constant
         : name == "wsd"          ? ScheduleKind::wsd
         : name == "inverse_sqrt" ? ScheduleKind::inverse_sqrt
                                  : ScheduleKind::cosine;
}

Fall fall_of(const config::ScheduleOptions& options) {
  const std::string& name = options.decay;
  return name == "linear" ? Fall::linear : name == "cosine" ? Fall::cosine : Fall::one_minus_sqrt;
}

}  // namespace

double Schedule::at(uint64_t step) const {
  if (step < warmup_steps) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (kind == ScheduleKind::constant) return peak;
  if (kind == ScheduleKind::inverse_sqrt) {
    constexpr uint64_t kWithoutWarmup = 10'000;  // as transformers has it
    const uint64_t scale = warmup_steps > 0 ? warmup_steps : kWithoutWarmup;
    return peak / std::sqrt(static_cast<double>(step - warmup_steps + scale) / static_cast<double>(scale));
  }
  const uint64_t stable =
      kind == ScheduleKind::wsd && total_steps > decay_steps ? total_steps - decay_steps : 0;
  const uint64_t begin = std::max(warmup_steps, stable);
  if (step < begin) return peak;
  const uint64_t length = total_steps > begin ? total_steps - begin : 1;
  const double done = std::min(1.0, static_cast<double>(step - begin) / static_cast<double>(length));
  return peak * (final_ratio + (1 - final_ratio) * left(done));
}

double Schedule::left(double done) const {
  const Fall how = kind == ScheduleKind::wsd      ? fall
                   : kind == ScheduleKind::linear ? Fall::linear
                                                  : Fall::cosine;
  if (how == Fall::cosine) return 0.5 * (1 + std::cos(std::numbers::pi * done));
  return how == Fall::linear ? 1 - done : 1 - std::sqrt(done);
}

double scale_learning_rate(double rate, LrScaling scaling, uint64_t effective_batch, uint64_t base_batch) {
  const double ratio = static_cast<double>(effective_batch) / static_cast<double>(base_batch);
  if (scaling == LrScaling::linear) return rate * ratio;
  if (scaling == LrScaling::sqrt) return rate * std::sqrt(ratio);
  return rate;
}

void check_schedule(const config::Config& config) {
  const config::TrainOptions& train = config.options().train;
  const config::ScheduleOptions& schedule = config.options().schedule;
  // With its default, which a run's own configuration spells out, the other one is meant.
  const double norm = train.clip_grad_norm;
  if (train.clip_grad_value > 0 && config.is_set("train.clip_grad_norm") && norm > 0 && norm != 1)
    throw config.error("train.clip_grad_value", "train.clip_grad_norm is set, too: leave one of the two out");
  const bool has_steps = train.max_steps || train.max_epochs;
  if (!has_steps && !train.max_seconds)
    throw config.error(
        "train.max_steps",
        "nothing says when training ends: give train.max_steps, train.max_epochs or train.max_seconds");
  const ScheduleKind kind = kind_of(schedule);
  if (!has_steps && kind != ScheduleKind::constant && kind != ScheduleKind::inverse_sqrt)
    throw config.error("schedule.kind",
                       "needs to know the last step: give train.max_steps or train.max_epochs beside "
                       "train.max_seconds, or use \"constant\" or \"inverse_sqrt\"");
  if (scaling_of(schedule) != LrScaling::none && !schedule.base_batch)
    throw config.error("schedule.lr_scaling",
                       "needs schedule.base_batch, the effective batch that optimizer.lr is right for");
}

Schedule make_schedule(const config::Config& config, uint64_t global_batch, uint64_t total_steps) {
  const config::ScheduleOptions& options = config.options().schedule;
  const LrScaling scaling = scaling_of(options);
  const uint64_t base_batch = scaling == LrScaling::none ? global_batch : options.base_batch.value();
  return {.peak = scale_learning_rate(config.options().optimizer.lr, scaling, global_batch, base_batch),
          .kind = kind_of(options),
          .warmup_steps = options.warmup_steps,
          .total_steps = total_steps,
          .final_ratio = options.min_lr_ratio,
          .decay_steps = options.decay_steps.value_or(std::max<uint64_t>(1, total_steps / 10)),
          .fall = fall_of(options)};
}

Sampler::Options sampler_options(Session& session) {
  const config::Config& config = session.config();
  plugins::Task& task = session.task();
  Sampler::Options options{.samples = task.sample_count(PL_SPLIT_TRAIN),
                           .seed = session.run_info().seed,
                           .shuffle = config.options().loader.shuffle,
                           .window_steps = config.options().loader.group_window};
  if (options.samples == UINT64_MAX)
    fail(PL_ERROR_UNSUPPORTED,
         "{} has unbounded training data, which this version cannot train on: use a task or task option with "
         "a fixed number of samples",
         session.task_plugin().label());
  if (options.samples == 0)
    fail(PL_ERROR_CONFIG, "{} has no training samples", session.task_plugin().label());
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

std::optional<ProfiledSteps> profiled_steps(const config::Config& config) {
  constexpr const char* kKey = "observe.profile";
  const std::string& text = config.options().observe.profile;
  if (text.empty()) return std::nullopt;
  ProfiledSteps steps;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, steps.first);
  const bool dash = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
  const auto last = dash ? std::from_chars(first.ptr + 1, end, steps.last) : first;
  if (!dash || last.ec != std::errc() || last.ptr != end)
    throw config.error(kKey, "expected the first and the last step to record, as in \"10-14\"");
  if (steps.first < 1) throw config.error(kKey, "steps are counted from 1: begin with 1 or more");
  if (steps.last < steps.first) throw config.error(kKey, "the last step is before the first: exchange them");
  if (steps.last - steps.first >= kMostSteps)
    throw config.error(kKey, fmt::format("{} steps make a trace that is too large to open: record {} at most",
                                         steps.last - steps.first + 1, kMostSteps));
  return steps;
}

}  // namespace pipeline::train
