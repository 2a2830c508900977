// What makes sharded strategies possible: an arena that is cut anywhere at a multiple of kChunk is updated to
// the same bits as a whole one, and its pieces are those of the whole one, cut.
#include <cmath>
#include <cstring>
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <pipeline/optimizer.hpp>

#include "plugins/strategies/common/arena.hpp"
#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/optimizer.hpp"
#include "plugins/strategies/common/rules/state_form.hpp"

namespace pipeline::strategies {
namespace {

std::vector<Parameter> make_parameters() {
  std::vector<Parameter> parameters;
  char name = 'a';
  for (const int64_t count : {5000, 7, 4097, 1, 9999, 16, 333, 12345}) {
    parameters.push_back({std::string(1, name++), {count}, true, true, 0, 1.0});
  }
  return parameters;
}

const std::vector<Parameter> kParameters = make_parameters();

std::vector<OptimizerRule> rules(const std::string& name) {
  if (name == "adamw")
    return {{name, 0, {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}}}};
  return {{name, 0, {{"momentum", 0.9}, {"nesterov", 0}, {"weight_decay", 0.1}}}};
}

// The context of a run on the CPU.
const Context& context() {
  static const pl_run_info info = sized<pl_run_info>();
  globals().host.run_info = [](const pl_context*) { return &info; };
  static const Context context(nullptr);
  return context;
}

struct Arena {
  std::shared_ptr<const Layout> layout = std::make_shared<const Layout>(kParameters);
  at::Tensor values = at::zeros({layout->length()});

  Arena() {
    at::manual_seed(3);
    for (const Slot& slot : layout->slots())
      values.narrow(0, slot.offset, slot.count).copy_(at::randn({slot.count}));
  }

  GradientRuns gradients(uint64_t seed) const {
    at::manual_seed(seed);
    GradientSum sum(layout, false);
    for (size_t slot = 0; slot < layout->slots().size(); ++slot)
      sum.add(slot, at::randn({layout->slots()[slot].count}), true);
    return sum.finish();
  }
};

TEST(Shard, UpdatesAreTheSameToTheBitWhereverTheArenaIsCut) {
  for (const char* kind : {"adamw", "sgd"}) {
    Arena whole;
    const auto reference =
        std::make_unique<Optimizer>(context(), rules(kind), whole.layout, whole.values, 0, at::kCPU);
    const GradientScale scale{.divisor = at::scalar_tensor(1.7f, at::kFloat), .found_inf = {}};
    for (uint64_t step = 0; step < 5; ++step) {
      reference->advance({scale});
      reference->update(whole.layout->groups()[0], whole.gradients(step), 0.01, scale);
    }

    const int64_t end = whole.layout->length();
    for (const int64_t cut : {kChunk, 2 * kChunk, 3 * kChunk, end - kChunk}) {
      Arena arena;
      const auto left = std::make_unique<Optimizer>(context(), rules(kind), arena.layout,
                                                    arena.values.narrow(0, 0, cut), 0, at::kCPU);
      const auto right = std::make_unique<Optimizer>(context(), rules(kind), arena.layout,
                                                     arena.values.narrow(0, cut, end - cut), cut, at::kCPU);
      for (uint64_t step = 0; step < 5; ++step) {
        at::Tensor flat = at::zeros({end});
        for (const GradientRun& run : arena.gradients(step)) {
          flat.narrow(0, run.offset, run.gradient.numel()).copy_(run.gradient);
        }
        left->advance({scale});
        right->advance({scale});
        left->update(arena.layout->groups()[0], {{0, flat.narrow(0, 0, cut)}}, 0.01, scale);
        right->update(arena.layout->groups()[0], {{cut, flat.narrow(0, cut, end - cut)}}, 0.01, scale);
      }
      EXPECT_TRUE(arena.values.equal(whole.values)) << cut;
      for (size_t i = 0; i < reference->state().size(); ++i) {
        EXPECT_TRUE(
            at::cat({left->state()[i].values, right->state()[i].values}).equal(reference->state()[i].values))
            << cut << " " << reference->state()[i].kind;
      }
    }
  }
}

// A rule as a plugin has it.
template <bool kTakes>
class Mover : public pipeline::Optimizer<NoConfig> {
 public:
  using Optimizer::Optimizer;
  static constexpr bool kTakesScale = kTakes;
  std::vector<std::string> state() const override { return {"average"}; }
  void update(const Update& u) override {
    EXPECT_TRUE(kTakes || (!u.divisor() && !u.found_inf()));
    const auto divisor = to_torch(u.divisor()), found_inf = to_torch(u.found_inf());
    for (size_t run = 0; run < u.runs(); ++run) {
      const at::Tensor weights = to_torch(u.weights(run)), gradient = to_torch(u.gradient(run)),
                       average = to_torch(u.state(0, run));
      if (divisor) gradient.div_(*divisor);
      if (found_inf && found_inf->item<float>() != 0) continue;
      average.lerp_(gradient, 0.1);
      weights.mul_(1 - u.learning_rate() * u.weight_decay()).sub_(average, u.learning_rate());
    }
  }
};

template <bool kTakes>
std::vector<at::Tensor> moved_by_plugin(const std::vector<GradientScale>& scales) {
  const Arena arena;
  const auto* api = static_cast<const pl_optimizer_api*>(OptimizerTable<Mover<kTakes>>::api());
  pl_update_rule* rule = OptimizerTable<Mover<kTakes>>::make({context(), NoConfig()});
  Optimizer optimizer(context(), {{"mover", 0, {{"weight_decay", 0.1}}, api, rule}}, arena.layout,
                      arena.values, 0, at::kCPU);
  for (size_t step = 0; step < scales.size(); ++step) {
    GradientRuns runs = arena.gradients(step);
    if (scales[step].found_inf && scales[step].found_inf->item<float>() != 0)
      runs[0].gradient.fill_(INFINITY);
    optimizer.advance({scales[step]});
    optimizer.update(arena.layout->groups()[0], runs, 0.01, scales[step]);
  }
  std::vector<at::Tensor> all{arena.values, optimizer.step_counts()};
  for (const ArenaPart& part : optimizer.state()) all.push_back(part.values);
  api->destroy(rule);
  return all;
}

TEST(Shard, ARuleThatTakesTheScaleMakesTheSameBitsAsOneThatDoesNot) {
  const auto scalar = [](float value) { return at::scalar_tensor(value, at::kFloat); };
  const std::vector<GradientScale> scales{{},
                                          {.divisor = scalar(1.7f)},
                                          {.divisor = scalar(3), .limit = 0.2},
                                          {.divisor = scalar(0.3f), .found_inf = scalar(0)},
                                          {.divisor = scalar(1.7f), .found_inf = scalar(1)},
                                          {.found_inf = scalar(0)}};
  const std::vector<at::Tensor> taken = moved_by_plugin<true>(scales), left = moved_by_plugin<false>(scales);
  ASSERT_EQ(taken.size(), 3);
  for (size_t i = 0; i < taken.size(); ++i) EXPECT_TRUE(taken[i].equal(left[i])) << i;
  EXPECT_EQ(taken[1].item<float>(), 5);
  EXPECT_TRUE(at::isfinite(taken[0]).all().item<bool>());
}

TEST(Shard, PiecesOfShardsMakeUpTheTensors) {
  const Arena arena;
  const ArenaState state(arena.layout, kParameters);
  const int64_t end = arena.layout->length();
  const int64_t cut = 2 * kChunk;
  std::map<std::string, std::vector<float>> seen;
  for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, cut}, {cut, end}}) {
    const auto snapshot =
        state.snapshot({{"value", first, arena.values.narrow(0, first, last - first)}}, at::zeros({}), true);
    snapshot->visit([&](const Piece& piece) {
      if (piece.kind != "value") return;
      std::vector<float>& tensor = seen[std::string(piece.parameter)];
      EXPECT_EQ(piece.offset, tensor.size()) << piece.parameter;
      const auto* data = static_cast<const float*>(piece.data);
      tensor.insert(tensor.end(), data, data + piece.count);
    });
  }
  ASSERT_EQ(seen.size(), kParameters.size());
  for (size_t i = 0; i < kParameters.size(); ++i) {
    const Slot& slot = arena.layout->slot_of(i);
    EXPECT_TRUE(at::tensor(seen[kParameters[i].name]).equal(arena.values.narrow(0, slot.offset, slot.count)))
        << i;
  }
}

// Moments in 16 and 8 bits.

const std::vector<StateForm> kNarrow{StateForm::kBFloat16, StateForm::kSigned8, StateForm::kUnsigned8};

// Values in the sizes of moments, with a block of zeros and one of a single value; no multiple of a block.
at::Tensor some_values(StateForm form) {
  at::manual_seed(7);
  at::Tensor values = at::randn({1000}).mul_(at::logspace(-12, 0, 1000));
  values.narrow(0, 128, 64).zero_();
  values.narrow(0, 256, 63).zero_();
  return form == StateForm::kUnsigned8 ? values.square() : values;
}

at::Tensor random_bits(float step) { return noise(3, 0, 1000, at::scalar_tensor(step)); }

TEST(StateForm, WhatItHasIsNeverRoundedAgain) {
  for (const StateForm form : kNarrow) {
    const Kept kept = make_state(form, 1000, at::kFloat), again = make_state(form, 1000, at::kFloat);
    EXPECT_TRUE(widened(form, kept).equal(at::zeros({1000})));
    narrow_to(form, some_values(form), random_bits(1), kept);
    const at::Tensor values = widened(form, kept);
    for (float step = 2; step < 30; ++step) {
      narrow_to(form, values, step == 2 ? at::Tensor() : random_bits(step), again);
      ASSERT_TRUE(widened(form, again).equal(values));
    }
  }
}

TEST(StateForm, IsRightOnAverage) {
  for (const StateForm form : kNarrow) {
    at::manual_seed(8);
    // Values of one size, so that every one is rounded both ways.
    at::Tensor values = at::rand({1000}, at::kDouble) + 0.5;
    if (form != StateForm::kUnsigned8) values *= at::randn({1000}, at::kDouble).sign();
    const Kept kept = make_state(form, 1000, at::kFloat);
    constexpr int kTimes = 400;
    double sum = 0, squares = 0;  // of errors, as shares of the values
    for (int i = 0; i < kTimes; ++i) {
      narrow_to(form, values.to(at::kFloat), random_bits(static_cast<float>(i)), kept);
      const at::Tensor error = widened(form, kept).to(at::kDouble) / values - 1;
      sum += error.sum().item<double>();
      squares += error.square().sum().item<double>();
    }
    EXPECT_GT(squares, 0);
    EXPECT_LT(std::abs(sum), 5 * std::sqrt(squares));
  }
}

// A moment that was rounded up beside a square that became zero would be a step without bounds.
TEST(StateForm, ASquareIsNeverRoundedToZero) {
  const Kept kept = make_state(StateForm::kUnsigned8, 64, at::kFloat);
  at::Tensor squares = at::full({64}, 1e-14);
  squares[5] = 1;
  squares[6] = 0;
  for (float step = 1; step < 9; ++step) {
    narrow_to(StateForm::kUnsigned8, squares, random_bits(step).narrow(0, 0, 64), kept);
    EXPECT_EQ(widened(StateForm::kUnsigned8, kept).count_nonzero().item<int64_t>(), 63);
  }
}

TEST(StateForm, NoiseBelongsToAnElementAndAStep) {
  const at::Tensor step = at::scalar_tensor(5.0f), whole = noise(2, 0, 4096, step);
  EXPECT_TRUE(noise(2, 1000, 96, step).equal(whole.narrow(0, 1000, 96)));
  EXPECT_FALSE(noise(3, 0, 4096, step).equal(whole));
  EXPECT_FALSE(noise(2, 0, 4096, at::scalar_tensor(6.0f)).equal(whole));
  for (const at::Tensor& half :
       {whole.bitwise_and(0xffff), whole.bitwise_right_shift(16).bitwise_and(0xffff)}) {
    EXPECT_NEAR(half.to(at::kDouble).mean().item<double>(), 32767.5, 5 * 18918 / 64.0);
    EXPECT_GT(std::get<0>(at::_unique(half)).numel(), 3800);
  }
}

}  // namespace
}  // namespace pipeline::strategies
