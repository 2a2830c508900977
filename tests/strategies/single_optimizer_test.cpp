// The numbers of `single`'s updates against PyTorch's own optimizers.
#include <gmock/gmock.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "tests/strategies/strategy_run.hpp"

namespace pipeline::strategies {
namespace {

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
