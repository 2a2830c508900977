// What makes sharded strategies possible: an arena that is cut anywhere at a multiple of kChunk is updated to
// the same bits as a whole one, and its pieces are those of the whole one, cut.
#include <cmath>
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include <pipeline/optimizer.hpp>

#include "plugins/strategies/common/arena_state.hpp"
#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/optimizer.hpp"

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
      reference->advance(scale);
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
        left->advance(scale);
        right->advance(scale);
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
    optimizer.advance(scales[step]);
    optimizer.update(arena.layout->groups()[0], runs, 0.01, scales[step]);
  }
  std::vector<at::Tensor> all{arena.values, optimizer.step_count()};
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

}  // namespace
}  // namespace pipeline::strategies
