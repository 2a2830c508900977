// `diloco`: its numbers against the algorithm written out with plain tensors, what it saves, what it refuses.
#include <gmock/gmock.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::vector<ParameterSpec> kSpecs{
    {"w", {33, 65}, true}, {"b", {7}, false}, {"frozen", {5, 3}, true, 1, false}, {"v", {64, 16}, true, 0.5}};
constexpr uint64_t kMicroBatches = 5;  // all ranks' together: two ranks run 3 and 2, and an empty one
constexpr double kRate = 0.02, kClip = 3;

// Steps 6 and 7 are ends of epochs: only the first rank has something; the last has less than a whole share.
uint64_t micro_batches_in(uint64_t step) { return step == 6 ? 1 : step == 7 ? 4 : kMicroBatches; }

std::vector<MicroBatch> batch(uint64_t step) {
  std::vector<MicroBatch> result;
  for (uint64_t m = 0; m < kMicroBatches; ++m) {
    if (m >= micro_batches_in(step)) {
      result.emplace_back();  // empty
      continue;
    }
    const uint64_t seed = 100 * step + m;
    MicroBatch one{.gradients = random_gradients(kSpecs, seed), .loss = at::scalar_tensor(double(seed) / 7)};
    for (at::Tensor& gradient : one.gradients)
      if (gradient.defined()) gradient.div_(double(micro_batches_in(step)));  // the core's scale does so
    if (step == 4 && m == 3) one.gradients[0].fill_(std::nanf(""));           // the last rank's alone
    result.push_back(std::move(one));
  }
  return result;
}

RunOptions options(const Rank& rank, std::vector<std::string> sets) {
  return {.plugin = "diloco", .micro_batches = kMicroBatches, .sets = std::move(sets), .group = rank.view()};
}
std::vector<std::string> every(int steps, double outer_lr = 0.7, double outer_momentum = 0.9) {
  return {"strategy.sync_steps=" + std::to_string(steps), "strategy.outer_lr=" + std::to_string(outer_lr),
          "strategy.outer_momentum=" + std::to_string(outer_momentum)};
}

// Values to begin with, the same for all strategies, by kind and name.
State start() {
  StrategyRun run(kSpecs, adamw());
  for (size_t i = 0; i < kSpecs.size(); ++i)
    run.set(i, random_gradients({{kSpecs[i].name, kSpecs[i].shape}}, 7 + i)[0]);
  return run.state();
}
at::Tensor value_in(const State& state, size_t index) {
  const auto& bytes = state.at("value/" + kSpecs[index].name);
  return at::from_blob(const_cast<std::byte*>(bytes.data()), kSpecs[index].shape).clone();
}

std::vector<pl_step_report> train(StrategyRun& run, const Rank& rank, uint64_t first, uint64_t last) {
  std::vector<pl_step_report> reports;
  for (uint64_t step = first; step < last; ++step)
    reports.push_back(run.strategy().collect(
        run.start_step(share_of(rank, run, batch(step)), StrategyRun::step_args(kRate, kClip))));
  return reports;
}

// What a rank has after some steps.
struct Trained {
  State state;
  std::vector<at::Tensor> shown, local;  // what the task is bound to in an evaluation, and in training
  std::vector<pl_step_report> reports;
};
std::vector<Trained> train(int ranks, const std::vector<std::string>& sets, const State& from, uint64_t first,
                           uint64_t last) {
  return each_rank(ranks, [&](const Rank& rank) {
    StrategyRun run(kSpecs, adamw(), options(rank, sets));
    run.load(from, first == 0);
    Trained result{.state = {}, .shown = {}, .local = {}, .reports = train(run, rank, first, last)};
    result.state = run.state();
    EXPECT_EQ(run.state(PL_SNAPSHOT_VIEW), result.state);
    run.strategy().gather_values();
    for (size_t i = 0; i < kSpecs.size(); ++i) result.shown.push_back(run.value(i).clone());
    run.strategy().release_values();
    for (size_t i = 0; i < kSpecs.size(); ++i) result.local.push_back(run.value(i).clone());
    return result;
  });
}
State all_of(const std::vector<Trained>& ranks) {
  State state;
  for (const Trained& rank : ranks) state.insert(rank.state.begin(), rank.state.end());
  return state;
}

// The algorithm as the paper has it, with PyTorch's own optimizers, one process after the other.
class Reference {
 public:
  Reference(size_t ranks, uint64_t sync_steps) : sync_steps_(sync_steps), outer_(values()) {
    for (size_t i = 0; i < outer_.size(); ++i) outer_[i].mutable_grad() = at::zeros_like(outer_[i]);
    outer_step_ = std::make_unique<torch::optim::SGD>(
        outer_, torch::optim::SGDOptions(0.7).momentum(0.9).nesterov(true));
    for (size_t rank = 0; rank < ranks; ++rank) {
      local_.push_back(values());
      const auto defaults = torch::optim::AdamWOptions().betas({0.9, 0.95}).eps(1e-8);
      std::vector<torch::optim::OptimizerParamGroup> groups;
      for (size_t i = 0; i < trained_.size(); ++i) {
        const ParameterSpec& spec = kSpecs[trained_[i]];
        torch::optim::AdamWOptions own = defaults;
        own.lr(kRate * spec.lr_multiplier).weight_decay(spec.decay ? 0.1 : 0);
        groups.emplace_back(std::vector<at::Tensor>{local_[rank][i]},
                            std::make_unique<torch::optim::AdamWOptions>(own));
      }
      inner_.push_back(std::make_unique<torch::optim::AdamW>(std::move(groups), defaults));
    }
  }

  void step(uint64_t step) {
    const std::vector<MicroBatch> all = batch(step);
    const size_t most = (all.size() + local_.size() - 1) / local_.size();
    const size_t filled = micro_batches_in(step);
    double norms = 0;
    size_t with_data = 0;
    for (size_t rank = 0; rank < local_.size(); ++rank) {
      const size_t first = rank * most, last = std::min(filled, first + most);
      if (first < last) ++with_data;
      double squares = 0;
      for (size_t i = 0; i < trained_.size(); ++i) {
        at::Tensor sum = at::zeros_like(local_[rank][i]);
        for (size_t m = first; m < last; ++m) sum += all[m].gradients[trained_[i]];
        // The mean over the micro-batches of this rank.
        if (first < last) sum *= double(filled) / double(last - first);
        local_[rank][i].mutable_grad() = sum;
        squares += local_[rank][i].grad().to(at::kDouble).square().sum().item<double>();
      }
      norms += squares;
      for (at::Tensor& local : local_[rank])
        local.mutable_grad().mul_(std::min(1.0, kClip / (std::sqrt(squares) + 1e-6)));
    }
    norm = std::sqrt(norms / double(with_data));
    if (!std::isfinite(norm)) return;
    for (const auto& inner : inner_) inner->step();
    if (++made_ % sync_steps_ != 0) return;
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < outer_.size(); ++i) {
      at::Tensor mean = at::zeros_like(outer_[i]);
      for (const auto& local : local_) mean += (outer_[i] - local[i]) / double(local_.size());
      outer_[i].mutable_grad() = mean;
    }
    outer_step_->step();
    for (const auto& local : local_)
      for (size_t i = 0; i < outer_.size(); ++i) at::Tensor(local[i]).copy_(outer_[i]);
  }

  void expect_near(const Trained& seen, size_t rank) const {
    for (size_t i = 0; i < trained_.size(); ++i) {
      EXPECT_TRUE(at::allclose(seen.local[trained_[i]], local_[rank][i], 1e-5, 1e-6))
          << kSpecs[trained_[i]].name;
      EXPECT_TRUE(at::allclose(seen.shown[trained_[i]], outer_[i], 1e-5, 1e-6)) << kSpecs[trained_[i]].name;
    }
  }
  double norm = 0;  // of the last step

 private:
  std::vector<at::Tensor> values() const {
    std::vector<at::Tensor> values;
    for (const size_t index : trained_) values.push_back(value_in(start(), index).set_requires_grad(true));
    return values;
  }

  const std::vector<size_t> trained_{0, 1, 3};
  uint64_t sync_steps_, made_ = 0;
  std::vector<at::Tensor> outer_;
  std::vector<std::vector<at::Tensor>> local_;
  std::unique_ptr<torch::optim::SGD> outer_step_;
  std::vector<std::unique_ptr<torch::optim::AdamW>> inner_;
};

TEST(Diloco, IsTheAlgorithmOfThePaper) {
  for (const int ranks : {1, 2, 3}) {
    Reference reference(size_t(ranks), 3);
    const uint64_t steps = 9;  // one of them is skipped: two outer steps, and two updates more
    const std::vector<Trained> seen = train(ranks, every(3), start(), 0, steps);
    for (uint64_t step = 0; step < steps; ++step) {
      reference.step(step);
      const pl_step_report& report = seen[0].reports[step];
      EXPECT_EQ(report.finite, step == 4 ? 0u : 1u);
      double loss = 0;
      for (uint64_t m = 0; m < micro_batches_in(step); ++m) loss += batch(step)[m].loss.item<double>();
      EXPECT_NEAR(report.loss_sum, loss, 1e-4);
      if (step != 4) {
        EXPECT_NEAR(report.grad_norm, reference.norm, reference.norm * 1e-6);
      }
      for (const Trained& rank : seen) {
        EXPECT_EQ(rank.reports[step].loss_sum, report.loss_sum);
        EXPECT_EQ(rank.reports[step].finite, report.finite);
      }
    }
    for (size_t rank = 0; rank < seen.size(); ++rank) reference.expect_near(seen[rank], rank);
    EXPECT_FALSE(seen[0].shown[0].equal(seen[0].local[0]));
    EXPECT_TRUE(seen[0].shown[2].equal(value_in(start(), 2))) << "what is frozen does not move";
  }
}

TEST(Diloco, WithOneProcessAndPlainOuterStepsIsAdamW) {
  const Trained seen = train(1, every(1, 1, 0), start(), 0, 8)[0];
  StrategyRun single(kSpecs, adamw());
  single.load(start(), true);
  const std::vector<pl_step_report> reports = train(single, Rank{}, 0, 8);
  for (size_t i = 0; i < kSpecs.size(); ++i)
    EXPECT_TRUE(at::allclose(seen.shown[i], single.value(i), 1e-5, 1e-7)) << kSpecs[i].name;
  for (size_t step = 0; step < reports.size(); ++step) {
    if (step != 4) {
      EXPECT_NEAR(seen.reports[step].grad_norm, reports[step].grad_norm, 1e-4);
    }
    EXPECT_NEAR(seen.reports[step].loss_sum, reports[step].loss_sum, 1e-3);
  }
}

// More elements than are exchanged at once; AdamW's first step is the learning rate, whatever the gradient.
TEST(Diloco, ExchangesLargeWeightsInPieces) {
  const std::vector<ParameterSpec> specs{{"large", {9'000'001}, false}};
  on_ranks(2, [&](const Rank& rank) {
    RunOptions large = options(rank, every(1));
    large.micro_batches = 2;
    StrategyRun run(specs, adamw(), large);
    const MicroBatch one{.gradients = {at::full({9'000'001}, rank.rank == 0 ? 1.0 : 3.0)},
                         .loss = at::ones({})};
    run.strategy().collect(run.start_step({one}, StrategyRun::step_args(0.01)));
    EXPECT_NEAR(run.value(0).min().item<double>(), -0.01 * 0.7 * 1.9, 1e-6);
    EXPECT_NEAR(run.value(0).max().item<double>(), -0.01 * 0.7 * 1.9, 1e-6);
  });
}

TEST(Diloco, HasTheSameBitsAgainAndShowsTheSameWeightsOnAllRanks) {
  const std::vector<Trained> once = train(3, every(2), start(), 0, 6),
                             again = train(3, every(2), start(), 0, 6);
  EXPECT_EQ(all_of(once), all_of(again));
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    EXPECT_TRUE(once[0].shown[i].equal(value_in(once[0].state, i)));
    EXPECT_TRUE(once[1].shown[i].equal(once[0].shown[i]));
    EXPECT_TRUE(once[2].shown[i].equal(once[0].shown[i]));
  }
  EXPECT_FALSE(once[1].local[0].equal(once[0].local[0]));
}

TEST(DilocoState, GoesOnBetweenTwoOuterStepsToTheBit) {
  for (const int ranks : {1, 2}) {
    const State whole = all_of(train(ranks, every(3), start(), 0, 10));
    for (const uint64_t step : {2, 5, 7}) {  // 5: the last step was skipped
      const State part = all_of(train(ranks, every(3), start(), 0, step));
      EXPECT_EQ(all_of(train(ranks, every(3), part, step, 10)), whole) << step;
    }
  }
}

TEST(DilocoState, EachRankSavesItsOwnAndRank0WhatAllShare) {
  const std::vector<Trained> ranks = train(2, every(3), start(), 0, 2);
  std::vector<std::string> of_1;
  for (const auto& [label, bytes] : ranks[1].state) of_1.push_back(label);
  EXPECT_THAT(of_1, ElementsAre("exp_avg.1/b", "exp_avg.1/v", "exp_avg.1/w", "exp_avg_sq.1/b",
                                "exp_avg_sq.1/v", "exp_avg_sq.1/w", "local.1/b", "local.1/v", "local.1/w"));
  EXPECT_EQ(ranks[0].state.size(), 9u + 4 + 3 + 2);
  EXPECT_TRUE(ranks[0].state.contains("outer_momentum/w") && ranks[0].state.contains("processes"));
}

TEST(DilocoState, OfAnotherNumberOfProcessesOrStrategyIsRefused) {
  const State two = all_of(train(2, every(3), start(), 0, 2));
  EXPECT_THAT(error_of([&] { train(1, every(3), two, 2, 3); }),
              HasSubstr("the checkpoint is of 2 process(es), this run has 1: go on as it was saved "
                        "(strategy, launch.processes) or begin with train.init_from"));
  EXPECT_THAT(error_of([&] { train(1, every(3), start(), 2, 3); }),
              HasSubstr("processes: is not in this state"));
  // The weights in the state are those that all share, for everyone.
  StrategyRun single(kSpecs, adamw());
  single.load(two, true);
  EXPECT_TRUE(single.value(0).equal(value_in(start(), 0))) << "before the first outer step";
  EXPECT_THAT(error_of([&] { single.load(two); }), HasSubstr("exp_avg/w: is not in this state"));
}

TEST(DilocoNarrow, KeepsMastersInFloat32) {
  RunOptions narrow{
      .plugin = "diloco", .dtype = at::kBFloat16, .micro_batches = kMicroBatches, .sets = every(2)};
  StrategyRun run(kSpecs, adamw(), narrow), wide(kSpecs, adamw(), options(Rank{}, every(2)));
  for (StrategyRun* each : {&run, &wide}) {
    each->load(start(), true);
    train(*each, Rank{}, 0, 3);
  }
  EXPECT_EQ(run.value(0).scalar_type(), at::kBFloat16);
  State masters = run.state(), expected = wide.state();
  masters.erase("value/frozen"), expected.erase("value/frozen");  // that one was rounded
  EXPECT_EQ(masters, expected);
  EXPECT_TRUE(run.value(0).equal(wide.value(0).to(at::kBFloat16)));
  run.strategy().gather_values();
  EXPECT_TRUE(run.value(0).equal(value_in(expected, 0).to(at::kBFloat16)));
  run.strategy().release_values();
  EXPECT_TRUE(run.value(0).equal(wide.value(0).to(at::kBFloat16)));
}

TEST(DilocoMemory, SaysWhatItHolds) {
  const std::vector<ParameterSpec> specs{{"w", {4096}}, {"f", {4096}, true, 1, false}};
  on_ranks(2, [&](const Rank& rank) {
    const StrategyRun run(specs, adamw(), options(rank, every(3)));
    EXPECT_THAT(run.strategy().memory(),
                ElementsAre(Pair("parameters", 2 * 16384u), Pair("gradients", 16384u),
                            Pair("optimizer state", 2 * 16384u),
                            Pair("outer weights and momentum", 2 * 16384u), Pair("outer step", 2 * 16384u)));
  });
  const StrategyRun run(specs, adamw(),
                        {.plugin = "diloco", .dtype = at::kBFloat16, .purpose = PL_PURPOSE_PREDICT});
  uint64_t sum = 0;
  for (const auto& [what, bytes] : run.strategy().memory()) sum += bytes;
  EXPECT_EQ(sum, 2 * 8192u) << "weights alone";
}

TEST(DilocoErrors, WhatItDoesNotHaveIsRefused) {
  const auto with = [](const plugins::Optimizer& optimizer, std::vector<std::string> sets = {}) {
    return error_of([&] {
      StrategyRun({{"w", {2, 2}, true, 1, true, 0, false, true}}, optimizer,
                  {.plugin = "diloco", .sets = sets});
    });
  };
  EXPECT_THAT(with(sgd()), HasSubstr("optimizer sgd: the inner steps are AdamW's"));
  EXPECT_THAT(with(sgd()), HasSubstr("optimizer.kind = \"adamw\", and no plugin"));
  EXPECT_THAT(with(muon()), HasSubstr("optimizer muon: the inner steps are AdamW's"));
  EXPECT_THAT(
      with(with_ema(adamw())),
      HasSubstr("optimizer.ema_decay = 0.9: diloco keeps float32 moments and no average: leave it out"));
  plugins::Optimizer narrow = adamw();
  narrow.options["state_bits"] = 8;
  EXPECT_THAT(
      with(narrow),
      HasSubstr("optimizer.state_bits = 8: diloco keeps float32 moments and no average: leave it out"));
  EXPECT_THAT(with(adamw(), {"strategy.sync_steps=0"}),
              HasSubstr("sync_steps=0: out of range: must be at least 1"));
  EXPECT_THAT(with(adamw(), {"strategy.outer_momentum=1.0"}),
              HasSubstr("outer_momentum=1.0: out of range: must be at least 0 and below 1"));
}

TEST(DilocoErrors, GradientsThatDoNotFit) {
  StrategyRun run(kSpecs, adamw(), {.plugin = "diloco"});
  EXPECT_THAT(error_of([&] { run.deliver(0, at::ones({33, 65})); }), HasSubstr("outside of a micro-batch"));
  run.strategy().begin_step(1);
  EXPECT_THAT(error_of([&] {
                run.hand_over(2, at::ones({5, 3}));
              }),
              HasSubstr("gradient of frozen, which is frozen"));
  EXPECT_THAT(error_of([&] { run.hand_over(1, at::ones({7})); }), HasSubstr("add it to the bound gradient"));
  EXPECT_THAT(error_of([&] { run.strategy().step(StrategyRun::step_args(1)); }),
              HasSubstr("step: after 0 of 1 micro-batches"));
  EXPECT_EQ(run.live_gradients(), 0);
}

TEST(DilocoErrors, AProcessWithoutAMicroBatch) {
  on_ranks(4, [&](const Rank& rank) {
    RunOptions five = options(rank, every(2));
    five.micro_batches = 5;  // in blocks of two
    try {
      StrategyRun run(kSpecs, adamw(), five);
      ADD_FAILURE() << "the last of four has nothing to train with";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("5 micro-batches leave the last without any"));
    }
  });
}

}  // namespace
}  // namespace pipeline::strategies
