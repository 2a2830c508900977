#include "core/train/plan/find_lr.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/train/plan/plan.hpp"
#include "core/train/session/schedule.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {
namespace {

constexpr double kSmoothing = 0.98;
constexpr double kDiverged = 4;  // times the least smoothed loss
constexpr double kRisen = 0.5;   // of the loss at the beginning

}  // namespace

bool RateCurve::add(double rate, double loss) {
  average_ = kSmoothing * average_ + (1 - kSmoothing) * loss;
  bias_ *= kSmoothing;
  const double smoothed = average_ / (1 - bias_);
  ended_ =
      !std::isfinite(loss) || (!points_.empty() && smoothed > least_ + (kDiverged - 1) * std::abs(least_));
  if (!std::isfinite(loss)) return false;
  least_ = points_.empty() ? smoothed : std::min(least_, smoothed);
  points_.push_back({rate, loss, smoothed});
  return !ended_;
}

double RateCurve::mean_of_tenth(size_t begin) const {
  double sum = 0;
  for (size_t i = begin; i < begin + tenth(); ++i) sum += points_[i].loss;
  return sum / static_cast<double>(std::max<size_t>(tenth(), 1));
}

bool RateCurve::diverged() const {
  return ended_ || last_loss() > first_loss() + kRisen * std::abs(first_loss());
}

const RatePoint* RateCurve::minimum() const {
  return points_.empty() ? nullptr : &*std::ranges::min_element(points_, {}, &RatePoint::smoothed);
}

std::optional<double> RateCurve::steepest() const {
  const size_t first = points_.size() / 10;
  double fall = 0;
  std::optional<double> rate;
  for (size_t i = std::max<size_t>(first, 1); i + 2 < points_.size(); ++i) {
    const double slope = points_[i + 1].smoothed - points_[i - 1].smoothed;  // the rates are evenly apart
    if (slope >= fall) continue;
    fall = slope;
    rate = points_[i].rate;
  }
  return rate;
}

std::optional<double> RateCurve::tenth_of_minimum() const {
  const RatePoint* const least = minimum();
  return least == nullptr ? std::nullopt : std::optional(least->rate / 10);
}

double rate_at(const RateTestArgs& args, uint64_t step) {
  if (args.steps < 2) return args.first;
  return args.first *
         std::pow(args.last / args.first, static_cast<double>(step) / static_cast<double>(args.steps - 1));
}

Outcome test_rates(const Workspace& workspace, const RateTestArgs& args, RateTest& test) {
  const config::Config stage = trial_stage(workspace.config);
  const ScratchFolder scratch;
  Session session(stage, workspace.registry, workspace.log,
                  session_args(workspace, PL_PURPOSE_TRAIN, scratch.path(),
                               values_of_run({}, init_from(workspace.config, stage))));
  uint64_t step = 0;
  return guard_work(
      session, [&] { return fmt::format("training step {}", step + 1); },
      [&] {
        open_for_trial(session, workspace.config, stage, scratch);
        const BatchPlan batch = BatchPlan::make(stage, args.processes);
        Sampler sampler(batch, sampler_options(session));
        if (const double base = stage.options().optimizer.lr; base > 0)
          test.scale = make_schedule(stage, batch.global_batch, total_steps(stage, sampler)).peak / base;
        const auto all_in_turn = [](const plugins::Loss& loss) { return loss.first == 1 && loss.every == 1; };
        if (!std::ranges::all_of(session.task().losses(), all_in_turn))
          fail(PL_ERROR_CONFIG,
               "find-lr needs a loss that is the same sum in every step, and the losses of {} have turns: "
               "set their first and every to 1, for this",
               session.task_plugin().label());
        TrialSteps steps(session);
        for (; step < args.steps; ++step) {
          std::vector<std::vector<uint64_t>> micro_batches;
          for (uint64_t m = 0; m < batch.micro_batches; ++m)
            if (auto ids = sampler.micro_batch(step, m); !ids.empty())
              micro_batches.push_back(std::move(ids));
          const double rate = rate_at(args, step);
          const TrialStep done = steps.run(micro_batches, sampler.epoch_of(step), rate);
          workspace.log.console().progress(fmt::format("rate {:.2e}  loss {:.4f}", rate, done.loss), step + 1,
                                           args.steps);
          // A gradient that is not finite leaves the weights as they are; in fp16 it may be the scale's.
          if (!test.curve.add(rate, done.loss)) break;
        }
        workspace.log.console().status({});
        return Outcome::finished;
      });
}

}  // namespace pipeline::train
