// What goes into and comes out of `single`: storage, snapshots, reports, and the order of its calls.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "tests/strategies/strategy_run.hpp"

namespace pipeline::strategies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::vector<ParameterSpec> kStateSpecs{{"w", {33, 65}},
                                             {"b", {7}, false},
                                             {"frozen", {5, 3}, true, 1, false},
                                             {"v", {64, 16}, true, 0.5},
                                             {"none", {0, 3}}};

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> result(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::vector<std::string> keys(const State& state) {
  std::vector<std::string> result;
  for (const auto& [key, bytes] : state) result.push_back(key);
  return result;
}

void train(StrategyRun& run, uint64_t from, uint64_t to) {
  for (uint64_t step = from; step < to; ++step) {
    run.step({random_gradients(kStateSpecs, 2 * step), random_gradients(kStateSpecs, 2 * step + 1)}, 0.01,
             1.0);
  }
}

class SingleState : public testing::TestWithParam<at::ScalarType> {
 protected:
  RunOptions options() { return {.dtype = GetParam(), .micro_batches = 2}; }
  void randomize(StrategyRun& run) {
    at::manual_seed(99);
    for (size_t i = 0; i < kStateSpecs.size(); ++i) run.set(i, at::randn(kStateSpecs[i].shape));
  }
};

TEST_P(SingleState, ContinuesFromItsPiecesToTheBit) {
  for (const plugins::Optimizer& optimizer : {adamw(), sgd(0.9, 0.1)}) {
    StrategyRun run(kStateSpecs, optimizer, options());
    randomize(run);
    train(run, 0, 3);
    const State saved = run.state();
    train(run, 3, 6);

    StrategyRun resumed(kStateSpecs, optimizer, options());
    resumed.load(saved);
    EXPECT_EQ(resumed.state(), saved);
    train(resumed, 3, 6);
    EXPECT_EQ(resumed.state(), run.state());
    for (size_t i = 0; i < kStateSpecs.size(); ++i) EXPECT_TRUE(resumed.value(i).equal(run.value(i)));
    EXPECT_NE(run.state(), saved);
  }
}

TEST_P(SingleState, AFreshStartTakesTheValuesAlone) {
  StrategyRun run(kStateSpecs, adamw(), options());
  randomize(run);
  train(run, 0, 3);
  StrategyRun fresh(kStateSpecs, adamw(), options());
  train(fresh, 7, 8);  // moments that must go
  fresh.load(run.state(), true);
  const State before = run.state(), after = fresh.state();
  for (const auto& [key, bytes] : after) {
    if (key.starts_with("value/")) {
      EXPECT_EQ(bytes, before.at(key)) << key;
    } else {
      EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size())) << key;
    }
  }
}

TEST_P(SingleState, PiecesAreWholeTensorsInFloat32) {
  StrategyRun run(kStateSpecs, adamw(), options());
  randomize(run);
  train(run, 0, 2);
  const State state = run.state(PL_SNAPSHOT_VIEW);
  EXPECT_THAT(keys(state), ElementsAre("exp_avg/b", "exp_avg/none", "exp_avg/v", "exp_avg/w", "exp_avg_sq/b",
                                       "exp_avg_sq/none", "exp_avg_sq/v", "exp_avg_sq/w", "step", "value/b",
                                       "value/frozen", "value/none", "value/v", "value/w"));
  EXPECT_EQ(state.at("exp_avg/w").size(), 33u * 65 * 4);
  int64_t step = 0;
  std::memcpy(&step, state.at("step").data(), sizeof step);
  EXPECT_EQ(step, 2);
  // What the task computes with is the rounded master.
  for (size_t i = 0; i < kStateSpecs.size(); ++i) {
    const std::vector<float> master = floats(state.at("value/" + kStateSpecs[i].name));
    const at::Tensor rounded = at::tensor(master).reshape(kStateSpecs[i].shape).to(GetParam());
    EXPECT_TRUE(run.value(i).equal(rounded)) << kStateSpecs[i].name;
  }
}

TEST_P(SingleState, FrozenParametersStayAndTakeNoGradient) {
  StrategyRun run(kStateSpecs, adamw(), options());
  randomize(run);
  const at::Tensor before = run.value(2).clone();
  train(run, 0, 3);
  EXPECT_TRUE(run.value(2).equal(before));
  run.strategy().begin_step(1);
  EXPECT_THAT(error_of([&] { run.hand_over(2, at::ones(kStateSpecs[2].shape)); }),
              HasSubstr("gradient of frozen, which is frozen"));
  EXPECT_EQ(run.live_gradients(), 0);
}

TEST_P(SingleState, PaddingStaysZero) {
  StrategyRun run(kStateSpecs, adamw(), options());
  randomize(run);
  train(run, 0, 5);
  for (const auto& [index, padding] : {std::pair<size_t, int64_t>{0, 2176 - 33 * 65}, {1, 64 - 7}}) {
    const plugins::Storage storage = run.strategy().storage(index);
    const int64_t count = run.value(index).numel();
    const at::Tensor around =
        at::from_blob(storage.value.data, {count + padding}, run.value(index).options());
    EXPECT_TRUE(around.narrow(0, count, padding).equal(at::zeros({padding}, around.options()))) << index;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, SingleState, testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& tested) { return std::string(at::toString(tested.param)); });

TEST(SingleSnapshot, ACopyStaysAndAViewShowsTheStateItself) {
  StrategyRun run(kStateSpecs, adamw());
  train(run, 0, 1);
  const plugins::Snapshot copy = run.strategy().snapshot(PL_SNAPSHOT_COPY);
  const plugins::Snapshot view = run.strategy().snapshot(PL_SNAPSHOT_VIEW);
  const State before = StrategyRun::state_of(copy);
  EXPECT_EQ(StrategyRun::state_of(view), before);
  view.pieces([&](const pl_piece& piece) {
    const std::string kind(piece.kind.ptr, piece.kind.len), name(piece.parameter.ptr, piece.parameter.len);
    if (kind == "value" && name == "w") {
      EXPECT_EQ(piece.data, run.value(0).data_ptr());
    }
  });
  train(run, 1, 2);
  EXPECT_EQ(StrategyRun::state_of(copy), before);
}

TEST(SingleSnapshot, AMissingPieceIsAnErrorWithItsName) {
  StrategyRun with_momentum(kStateSpecs, sgd(0.9)), other(kStateSpecs, adamw());
  EXPECT_EQ(error_of([&] { other.load(with_momentum.state()); }), "exp_avg/w: is not in this state");
}

TEST(SingleStorage, HandsGradientsOverAtFixedAddresses) {
  StrategyRun run(kStateSpecs, adamw());
  const plugins::Storage first = run.strategy().storage(3);
  EXPECT_EQ(first.grad.data, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.value.data) % 64, 0u);
  train(run, 0, 2);
  EXPECT_EQ(run.strategy().storage(3).value.data, first.value.data);
}

TEST(SingleStorage, SaysWhatItHoldsAndInWhichDtype) {
  const std::vector<ParameterSpec> specs{{"w", {4096}}, {"f", {4096}, true, 1, false}};
  StrategyRun plain(specs, adamw());
  EXPECT_THAT(plain.strategy().memory(), ElementsAre(Pair("parameters", 32768u), Pair("gradients", 16384u),
                                                     Pair("optimizer state", 32768u)));
  StrategyRun narrow(specs, sgd(0.9), {.reproducible = true, .dtype = at::kBFloat16, .micro_batches = 4});
  EXPECT_THAT(
      narrow.strategy().memory(),
      ElementsAre(Pair("parameters", 16384u), Pair("master weights", 16384u), Pair("gradients", 16384u),
                  Pair("gradients of the sum tree", 32768u), Pair("optimizer state", 16384u)));
  EXPECT_EQ(narrow.strategy().info().master_dtype.bits, 32);
  EXPECT_EQ(narrow.strategy().info().micro_batch_order, PL_ORDER_BLOCK);
}

TEST(SingleStorage, HoldsValuesAloneWhereNothingIsTrained) {
  const std::vector<ParameterSpec> specs{{"w", {4096}}, {"b", {7}, false}};
  StrategyRun trained(specs, adamw());
  trained.step({random_gradients(specs, 1)});
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    StrategyRun run(specs, adamw(), {.dtype = dtype, .purpose = PL_PURPOSE_PREDICT});
    run.load(trained.state(), true);
    for (size_t i = 0; i < specs.size(); ++i) EXPECT_TRUE(run.value(i).equal(trained.value(i).to(dtype)));
    EXPECT_THAT(run.strategy().memory(),
                ElementsAre(Pair("parameters", dtype == at::kFloat ? 32768u : 16384u)));
    run.strategy().begin_step(1);
    EXPECT_THAT(error_of([&] { run.hand_over(0, at::ones({4096})); }),
                HasSubstr("gradient of w, which is frozen"));
  }
}

TEST(SingleReport, IsKeptForTwoSteps) {
  StrategyRun run({{"w", {16}}}, sgd());
  std::vector<uint64_t> tickets;
  for (float loss = 1; loss <= 3; ++loss) {
    run.strategy().begin_step(1);
    run.hand_over(0, at::full({16}, loss));
    run.end_micro_batch(at::scalar_tensor(loss));
    tickets.push_back(run.strategy().step(StrategyRun::step_args(0.1)));
  }
  EXPECT_EQ(run.strategy().collect(tickets[2]).loss_sum, 3);
  EXPECT_EQ(run.strategy().collect(tickets[1]).loss_sum, 2);
  EXPECT_EQ(run.strategy().collect(tickets[1]).grad_norm, 8);
  EXPECT_THAT(error_of([&] { run.strategy().collect(tickets[0]); }),
              HasSubstr("collect: ticket 1 is not of one of the last 2 steps; the last is 3"));
  EXPECT_THAT(error_of([&] { run.strategy().collect(4); }), HasSubstr("ticket 4"));
}

TEST(SingleErrors, SeveralProcesses) {
  EXPECT_THAT(error_of([] { StrategyRun run(kStateSpecs, adamw(), {.world_size = 4}); }),
              HasSubstr("works with one process, this run has 4: use strategy.plugin = \"ddp\" (or "
                        "\"auto\"), or launch.processes = 1"));
}

TEST(SingleErrors, ParametersInDoublePrecision) {
  EXPECT_THAT(error_of([] { StrategyRun run(kStateSpecs, adamw(), {.dtype = at::kDouble}); }),
              HasSubstr("parameters in float64: must be float32, bfloat16 or float16"));
}

TEST(SingleErrors, GradientsThatDoNotFit) {
  StrategyRun run(kStateSpecs, adamw());
  EXPECT_THAT(error_of([&] { run.hand_over(0, at::ones(kStateSpecs[0].shape)); }),
              HasSubstr("gradient of w outside of a micro-batch"));
  run.strategy().begin_step(1);
  const at::Tensor turned = at::ones({65, 33});
  EXPECT_THAT(error_of([&] { run.hand_over(0, turned.clone()); }),
              HasSubstr("gradient of w has shape (65, 33), expected (33, 65)"));
  EXPECT_THAT(error_of([&] { run.hand_over(9, at::ones({1})); }), HasSubstr("gradient of parameter 9 of 5"));
  EXPECT_EQ(run.live_gradients(), 0);
}

TEST(SingleErrors, CallsOutOfOrder) {
  StrategyRun run({{"w", {16}}}, sgd());
  EXPECT_THAT(error_of([&] { run.strategy().begin_step(0); }), HasSubstr("begin_step: 0 micro-batches"));
  EXPECT_THAT(error_of([&] { run.strategy().step(StrategyRun::step_args(1)); }),
              HasSubstr("step: after 0 of 0 micro-batches"));
  run.strategy().begin_step(2);
  run.end_micro_batch(at::ones({}));
  EXPECT_THAT(error_of([&] { run.strategy().step(StrategyRun::step_args(1)); }),
              HasSubstr("step: after 1 of 2 micro-batches"));
  run.end_micro_batch(at::ones({}));
  EXPECT_THAT(error_of([&] { run.end_micro_batch(at::ones({})); }),
              HasSubstr("end_micro_batch: the step has 2 micro-batches"));
  for (const double scale : {0.0, -1.0, std::nan("")}) {
    EXPECT_THAT(error_of([&] { run.strategy().step(StrategyRun::step_args(1, 0, scale)); }),
                HasSubstr("inverse_scale"));
    run.strategy().begin_step(1);
    run.end_micro_batch(at::ones({}));
  }
}

TEST(SingleErrors, AStepThatWasGivenUpLeavesNoTrace) {
  StrategyRun run(kStateSpecs, adamw()), other(kStateSpecs, adamw());
  run.strategy().begin_step(2);
  run.hand_over(0, at::ones({33, 65}));
  run.end_micro_batch(at::ones({}));
  run.hand_over(1, at::ones({7}));
  run.strategy().begin_step(1);
  EXPECT_EQ(run.live_gradients(), 0);
  for (StrategyRun* each : {&run, &other}) train(*each, 0, 2);
  EXPECT_EQ(run.state(), other.state());
}

}  // namespace
}  // namespace pipeline::strategies
