// How `single` adds gradients and losses, and what it does with those that are not finite.
#include <cmath>

#include <gmock/gmock.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "tests/strategies/strategy_run.hpp"

namespace pipeline::strategies {
namespace {

const std::vector<ParameterSpec> kSumSpecs{{"w", {33, 65}}, {"b", {7}, false}, {"v", {64, 16}}};

// The sum over leaves [first, last) as the design defines it, written without a stack.
at::Tensor tree_sum(const std::vector<at::Tensor>& leaves, size_t first, size_t last) {
  if (last - first == 1) return leaves[first];
  size_t half = 1;
  while (half * 2 < last - first) half *= 2;
  return tree_sum(leaves, first, first + half) + tree_sum(leaves, first + half, last);
}

// SGD with rate 1 from zero leaves exactly the negated sum in the weights.
std::vector<at::Tensor> summed(const std::vector<Gradients>& micro_batches, bool reproducible) {
  StrategyRun run(kSumSpecs, sgd(), {.reproducible = reproducible, .micro_batches = micro_batches.size()});
  run.step(micro_batches, 1.0);
  std::vector<at::Tensor> sums;
  for (size_t i = 0; i < kSumSpecs.size(); ++i) sums.push_back(run.value(i).neg());
  EXPECT_EQ(run.live_gradients(), 0);
  return sums;
}

TEST(SingleSum, ReproducibleSumsFollowTheTreeToTheBit) {
  bool differs_from_a_plain_sum = false;
  for (size_t count = 1; count <= 9; ++count) {
    std::vector<Gradients> micro_batches;
    for (size_t m = 0; m < count; ++m) micro_batches.push_back(random_gradients(kSumSpecs, m));
    const std::vector<at::Tensor> tree = summed(micro_batches, true);
    const std::vector<at::Tensor> plain = summed(micro_batches, false);
    for (size_t i = 0; i < kSumSpecs.size(); ++i) {
      std::vector<at::Tensor> leaves;
      at::Tensor in_turn = at::zeros(kSumSpecs[i].shape);
      for (const Gradients& gradients : micro_batches) {
        leaves.push_back(gradients[i]);
        in_turn += gradients[i];
      }
      EXPECT_TRUE(tree[i].equal(tree_sum(leaves, 0, count))) << count << " " << kSumSpecs[i].name;
      EXPECT_TRUE(plain[i].equal(in_turn)) << count << " " << kSumSpecs[i].name;
      differs_from_a_plain_sum |= !tree[i].equal(in_turn);
    }
  }
  EXPECT_TRUE(differs_from_a_plain_sum);
}

TEST(SingleSum, LossesFollowTheTreeInDouble) {
  for (size_t count = 1; count <= 9; ++count) {
    StrategyRun run(kSumSpecs, sgd(), {.reproducible = true, .micro_batches = count});
    run.strategy().begin_step(count);
    std::vector<at::Tensor> losses;
    for (size_t m = 0; m < count; ++m) {
      losses.push_back(at::scalar_tensor(std::exp(static_cast<double>(m)) / 3, at::kDouble));
      run.end_micro_batch(losses.back());
      if (m % 2 == 0) losses.back() = losses.back().clone();
    }
    const uint64_t ticket = run.strategy().step(StrategyRun::step_args(1));
    EXPECT_EQ(run.strategy().collect(ticket).loss_sum, tree_sum(losses, 0, count).item<double>());
  }
}

TEST(SingleSum, AMicroBatchThatWasNotRunCountsAsZero) {
  for (const bool reproducible : {false, true}) {
    StrategyRun run(kSumSpecs, sgd(), {.reproducible = reproducible, .micro_batches = 3});
    run.strategy().begin_step(3);
    run.end_micro_batch({});
    const Gradients gradients = random_gradients(kSumSpecs, 1);
    for (size_t i = 0; i < kSumSpecs.size(); ++i) run.hand_over(i, gradients[i].clone());
    run.end_micro_batch(at::full({}, 2.5f));
    run.end_micro_batch({});
    const pl_step_report report = run.strategy().collect(run.strategy().step(StrategyRun::step_args(1)));
    EXPECT_EQ(report.loss_sum, 2.5);
    for (size_t i = 0; i < kSumSpecs.size(); ++i) EXPECT_TRUE(run.value(i).equal(gradients[i].neg()));
  }
}

TEST(SingleSum, AGradientThatComesTwiceIsAdded) {
  for (const bool reproducible : {false, true}) {
    StrategyRun run(kSumSpecs, sgd(), {.reproducible = reproducible});
    run.strategy().begin_step(1);
    const Gradients a = random_gradients(kSumSpecs, 1), b = random_gradients(kSumSpecs, 2);
    for (size_t i = 0; i < kSumSpecs.size(); ++i) {
      run.hand_over(i, a[i].clone());
      run.lend(i, b[i]);
    }
    run.end_micro_batch(at::ones({}));
    run.strategy().step(StrategyRun::step_args(1));
    for (size_t i = 0; i < kSumSpecs.size(); ++i) EXPECT_TRUE(run.value(i).equal((a[i] + b[i]).neg()));
  }
}

// Where nothing says in which order: then the task's products add to the sums themselves.
TEST(SingleSum, SeveralMicroBatchesAddUpInMemoryThatTheTaskIsBoundTo) {
  for (const bool reproducible : {false, true}) {
    for (const uint64_t micro_batches : {1, 2}) {
      StrategyRun run(kSumSpecs, sgd(),
                      {.reproducible = reproducible, .dtype = at::kBFloat16, .micro_batches = micro_batches});
      const pl_tensor gradient = run.strategy().storage(0).grad;
      EXPECT_EQ(gradient.data != nullptr, micro_batches == 2 && !reproducible);
      EXPECT_EQ(gradient.dtype.bits, gradient.data != nullptr ? 32 : 16);
    }
  }
}

TEST(SingleSum, TakesGradientsThatAreLentOrStridedOrNarrow) {
  StrategyRun run(kSumSpecs, sgd());
  const Gradients gradients = random_gradients(kSumSpecs, 3);
  run.strategy().begin_step(1);
  run.lend(0, gradients[0]);
  run.hand_over(1, gradients[1].to(at::kBFloat16));
  run.hand_over(2, gradients[2].t().contiguous().t());
  run.end_micro_batch(at::ones({}));
  run.strategy().step(StrategyRun::step_args(1));
  EXPECT_TRUE(run.value(0).equal(gradients[0].neg()));
  EXPECT_TRUE(run.value(1).equal(gradients[1].to(at::kBFloat16).to(at::kFloat).neg()));
  EXPECT_TRUE(run.value(2).equal(gradients[2].neg()));
  EXPECT_EQ(run.live_gradients(), 0);
}

TEST(SingleSum, NarrowGradientsAddUpInFloat32) {
  const std::vector<ParameterSpec> specs{{"w", {32}}};
  StrategyRun run(specs, sgd(), {.dtype = at::kBFloat16, .micro_batches = 300});
  // In bfloat16, 256 + 1 is 256.
  const std::vector<Gradients> ones(300, Gradients{at::ones({32}, at::kBFloat16)});
  EXPECT_DOUBLE_EQ(run.step(ones, 1.0).grad_norm, 300 * std::sqrt(32.0));
}

TEST(SingleSum, AParameterWithoutGradientIsUpdatedWithZero) {
  StrategyRun with(kSumSpecs, adamw()), without(kSumSpecs, adamw());
  for (StrategyRun* run : {&with, &without}) {
    run->set(0, at::ones(kSumSpecs[0].shape));
    run->step({random_gradients(kSumSpecs, 1)});
  }
  Gradients gradients = random_gradients(kSumSpecs, 2);
  gradients[0].zero_();
  gradients[1].zero_();
  with.step({gradients});
  gradients[0].reset();
  gradients[1].reset();
  without.step({gradients});
  EXPECT_EQ(with.state(), without.state());
}

TEST(SingleSum, ANonFiniteGradientSkipsTheUpdateAndNothingElse) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      StrategyRun run(kSumSpecs, adamw(), {.dtype = dtype, .micro_batches = 2}),
          other(kSumSpecs, adamw(), {.dtype = dtype, .micro_batches = 2});
      for (StrategyRun* each : {&run, &other}) {
        each->step({random_gradients(kSumSpecs, 1), random_gradients(kSumSpecs, 2)});
      }
      const State before = run.state();
      const at::Tensor value = run.value(0).clone();
      Gradients gradients = random_gradients(kSumSpecs, 3);
      gradients[2][5][5] = bad;
      const pl_step_report report = run.step({random_gradients(kSumSpecs, 4), gradients}, 0.1, 1.0);
      EXPECT_EQ(report.finite, 0u);
      EXPECT_FALSE(std::isfinite(report.grad_norm));
      EXPECT_EQ(run.state(), before);
      EXPECT_TRUE(run.value(0).equal(value));
      for (StrategyRun* each : {&run, &other}) {
        EXPECT_EQ(each->step({random_gradients(kSumSpecs, 5), random_gradients(kSumSpecs, 6)}).finite, 1u);
      }
      EXPECT_EQ(run.state(), other.state());
    }
  }
}

TEST(SingleSum, NormAndClippingDoNotDependOnThreads) {
  const int threads = at::get_num_threads();
  std::vector<State> states;
  std::vector<double> norms;
  const std::vector<ParameterSpec> specs{{"big", {300, 1000}}, {"b", {9}, false}};
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    StrategyRun run(specs, adamw());
    run.step({random_gradients(specs, 1)}, 0.1, 1.0);
    norms.push_back(run.step({random_gradients(specs, 2)}, 0.1, 1.0).grad_norm);
    states.push_back(run.state());
  }
  at::set_num_threads(threads);
  for (size_t i = 1; i < states.size(); ++i) {
    EXPECT_EQ(states[i], states[0]);
    EXPECT_EQ(norms[i], norms[0]);
  }
}

TEST(SingleSum, ClippingAndScaleMakeAnUpdateOfThatNorm) {
  StrategyRun run(kSumSpecs, sgd());
  const pl_step_report report = run.step({random_gradients(kSumSpecs, 1)}, 1.0, 0.5, 1.0 / 1024);
  double squares = 0, unscaled = 0;
  const Gradients gradients = random_gradients(kSumSpecs, 1);
  for (size_t i = 0; i < kSumSpecs.size(); ++i) {
    squares += run.value(i).to(at::kDouble).square().sum().item<double>();
    unscaled += gradients[i].to(at::kDouble).square().sum().item<double>();
  }
  EXPECT_NEAR(report.grad_norm, std::sqrt(unscaled) / 1024, 1e-9);
  EXPECT_LT(report.grad_norm, 0.5);  // below the limit: not clipped
  EXPECT_NEAR(std::sqrt(squares), report.grad_norm, 1e-6);

  StrategyRun clipped(kSumSpecs, sgd());
  clipped.step({gradients}, 1.0, 0.5);
  squares = 0;
  for (size_t i = 0; i < kSumSpecs.size(); ++i)
    squares += clipped.value(i).to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(std::sqrt(squares), 0.5, 1e-6);
}

// The numbers of `single`'s updates against PyTorch's own optimizers.

const std::vector<ParameterSpec> kSpecs{{"w", {33, 65}, true},          {"odd", {7}, false},
                                        {"head", {16, 16}, true, 0.25}, {"one", {}, false},
                                        {"long", {4097}, true},         {"even", {64}, false, 0.25}};

// One group per parameter, as the strategy's groups say.
template <class Options>
std::vector<torch::optim::OptimizerParamGroup> groups(std::vector<at::Tensor>& values,
                                                      const Options& defaults, double learning_rate,
                                                      double weight_decay) {
  std::vector<torch::optim::OptimizerParamGroup> result;
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    Options options = defaults;
    options.lr(learning_rate * kSpecs[i].lr_multiplier).weight_decay(kSpecs[i].decay ? weight_decay : 0);
    result.emplace_back(std::vector<at::Tensor>{values[i]}, std::make_unique<Options>(options));
  }
  return result;
}

// Ten steps of two micro-batches, with clipping in every other one.
template <class TorchOptimizer, class Options>
void compare(const plugins::Optimizer& args, const Options& options) {
  StrategyRun run(kSpecs, args);
  std::vector<at::Tensor> values;
  at::manual_seed(1);
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    values.push_back(at::randn(kSpecs[i].shape));
    run.set(i, values[i]);
    values[i] = values[i].clone().set_requires_grad(true);
  }
  const double learning_rate = 0.02;
  TorchOptimizer reference(groups(values, options, learning_rate, args.options.at("weight_decay")), options);
  for (uint64_t step = 0; step < 10; ++step) {
    const std::vector<Gradients> micro_batches{random_gradients(kSpecs, 10 * step),
                                               random_gradients(kSpecs, 10 * step + 1)};
    const double clip = step % 2 == 0 ? 3.0 : 0.0;
    double squares = 0;
    for (size_t i = 0; i < kSpecs.size(); ++i) {
      values[i].mutable_grad() = (micro_batches[0][i] + micro_batches[1][i]) * 0.5;
      squares += values[i].grad().to(at::kDouble).square().sum().template item<double>();
    }
    const double norm = std::sqrt(squares);
    if (clip > 0) {
      for (at::Tensor& value : values) value.mutable_grad().mul_(std::min(1.0, clip / (norm + 1e-6)));
    }
    reference.step();
    const pl_step_report report = run.step(micro_batches, learning_rate, clip, 0.5);
    EXPECT_NEAR(report.grad_norm, norm, norm * 1e-6);
    EXPECT_EQ(report.finite, 1u);
    for (size_t i = 0; i < kSpecs.size(); ++i) {
      EXPECT_TRUE(at::allclose(run.value(i), values[i].detach(), 1e-5, 1e-6))
          << kSpecs[i].name << " in step " << step;
    }
  }
}

TEST(SingleOptimizer, AdamWIsPyTorchs) {
  compare<torch::optim::AdamW>(adamw(0.1), torch::optim::AdamWOptions().betas({0.9, 0.95}).eps(1e-8));
}

TEST(SingleOptimizer, SgdIsPyTorchs) {
  compare<torch::optim::SGD>(sgd(0, 0.1), torch::optim::SGDOptions(0.02));
  compare<torch::optim::SGD>(sgd(0.9, 0.1), torch::optim::SGDOptions(0.02).momentum(0.9));
  compare<torch::optim::SGD>(sgd(0.9, 0.1, true),
                             torch::optim::SGDOptions(0.02).momentum(0.9).nesterov(true));
}

// Limits as torch.nn.utils.clip_grad_value_ does, after the loss scale is undone.
TEST(SingleOptimizer, LimitsGradientsToAValue) {
  const Gradients gradients = random_gradients(kSpecs, 5);
  Gradients limited, scaled;
  for (const at::Tensor& gradient : gradients) {
    limited.push_back(gradient.clamp(-0.5, 0.5));
    scaled.push_back(gradient * 8);
  }
  StrategyRun run(kSpecs, sgd()), expected(kSpecs, sgd());
  pl_step_args args = StrategyRun::step_args(0.1, 0, 1.0 / 8);
  args.clip_value = 0.5;
  const auto report =
      run.strategy().collect(run.start_step({{.gradients = scaled, .loss = at::ones({})}}, args));
  expected.step({limited});
  for (size_t i = 0; i < kSpecs.size(); ++i) EXPECT_TRUE(run.value(i).equal(expected.value(i))) << i;
  EXPECT_GT(report.grad_norm, 10);  // the norm before the limit
}

// The average of torch.optim.swa_utils.AveragedModel with get_ema_avg_fn(0.9), updated from `start` on.
TEST(SingleOptimizer, KeepsTheMovingAverageOfWeights) {
  for (const auto& [every, start] : {std::pair(1, 0), {2, 0}, {1, 3}, {3, 2}}) {
    StrategyRun run(kSpecs, with_ema(adamw(), every, start));
    at::Tensor expected;
    for (int step = 1; step <= 9; ++step) {
      run.step({random_gradients(kSpecs, static_cast<uint64_t>(step))});
      const at::Tensor weights = run.value(0).clone();
      if (step <= std::max(start, 1))
        expected = weights;
      else if ((step - start) % every == 0)
        expected = expected * 0.9 + weights * 0.1;
      const State state = run.state();
      const at::Tensor seen = at::from_blob(const_cast<std::byte*>(state.at("ema/w").data()), {33, 65});
      EXPECT_TRUE(at::allclose(seen, expected, 1e-6, 1e-7)) << every << " " << start << " step " << step;
      EXPECT_EQ(seen.equal(weights), step <= std::max(start, 1)) << step;
    }
  }
}

TEST(SingleOptimizer, RefusesOptionsThatMakeNoSense) {
  const auto error_of = [](plugins::Optimizer args) -> std::string {
    return strategies::error_of([&] { StrategyRun run({{"w", {2}}}, args); });
  };
  using testing::HasSubstr;
  plugins::Optimizer args = adamw();
  args.options["beta2"] = 1;
  EXPECT_THAT(error_of(args), HasSubstr("optimizer.beta2 = 1: must be at least 0 and below 1"));
  args = adamw(-1);
  EXPECT_THAT(error_of(args), HasSubstr("optimizer.weight_decay = -1: must be 0 or more"));
  args = adamw();
  args.options["epsilon"] = 0;
  EXPECT_THAT(error_of(args), HasSubstr("optimizer.epsilon = 0: must be above 0"));
  EXPECT_THAT(error_of(sgd(0, 0, true)),
              HasSubstr("optimizer.momentum = 0: must be above 0 where optimizer.nesterov is true"));
  args = adamw();
  args.name = "lion";
  EXPECT_THAT(error_of(args), HasSubstr("optimizer lion is not known: use adamw, muon or sgd"));
  args = adamw();
  args.options["beta3"] = 1;
  EXPECT_THAT(error_of(args), HasSubstr("optimizer adamw: option beta3 is not known"));
  args = adamw();
  args.options.erase("beta1");
  EXPECT_THAT(error_of(args), HasSubstr("optimizer adamw: option beta1 is missing"));
  args = adamw();
  args.flags = 8;
  EXPECT_THAT(error_of(args), HasSubstr("optimizer adamw: flags 8 are not known"));
}

}  // namespace
}  // namespace pipeline::strategies
