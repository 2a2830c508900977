// Stage 3 of `sharded`: weights are whole only while their unit is in use.
#include <cmath>
#include <set>

#include <gmock/gmock.h>

#include "tests/strategies/job.hpp"

namespace pipeline::strategies {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A model of five units, unit 0 entered again at the end as a tied head, and one that is used in the
// forward pass alone.
const std::vector<ParameterSpec> kSpecs{
    {"tied", {300, 33}, true, 1, true, 0},  {"forward", {41, 100}, true, 1, true, 1},
    {"w2", {64, 130}, true, 1, true, 2},    {"b2", {64}, false, 1, true, 2},
    {"frozen2", {5000}, true, 1, false, 2}, {"w3", {64, 130}, true, 0.5, true, 3},
    {"unused3", {77}, true, 1, true, 3},    {"nothing3", {0, 5}, true, 1, true, 3},
    {"w4", {12, 4097}, true, 1, true, 4}};
constexpr uint32_t kForwardOnly = 1;
const std::vector<uint32_t> kForward{0, 1, 2, 3, 4, 0}, kBackward{0, 4, 3, 2, 0};

// One rank's task: its loss and gradients depend on all weights, which it reads between enter and leave.
class Walker {
 public:
  explicit Walker(StrategyRun& run) : run_(run) {
    if (run.strategy().has_unit_hooks()) hooks_ = &run.strategy().unit_hooks();
  }

  at::Tensor forward(uint64_t seed) {
    double loss = static_cast<double>(seed % 7);
    for (const uint32_t unit : kForward) {
      in_unit(unit, PL_PASS_FORWARD, [&](size_t i) { loss += sum(i); });
    }
    return at::scalar_tensor(loss, at::kDouble);
  }

  void backward(uint64_t seed) {
    const Gradients noise = random_gradients(kSpecs, seed);
    std::set<uint32_t> seen;
    for (const uint32_t unit : kBackward) {
      const bool again = unit == 0 && seen.insert(unit).second;  // complete when the second visit is over
      in_unit(unit, PL_PASS_BACKWARD, [&](size_t i) {
        if (!again && noise[i].defined() && kSpecs[i].name != "unused3" && noise[i].numel() > 0) {
          const at::Tensor value = run_.value(i).to(at::kFloat);
          run_.hand_over(i, (noise[i] * 0.1 + value).to(run_.value(i).scalar_type()));
        }
      });
    }
    run_.hand_over(kForwardOnly, noise[kForwardOnly].to(run_.value(0).scalar_type()));
  }

  void train(const std::optional<uint64_t>& seed) {
    if (!seed) return run_.end_micro_batch({});
    const at::Tensor loss = forward(*seed);
    backward(*seed);
    run_.end_micro_batch(loss);
  }

 private:
  double sum(size_t i) const { return run_.value(i).to(at::kDouble).sum().item<double>(); }

  template <class Body>
  void in_unit(uint32_t unit, uint32_t pass, const Body& body) {
    if (hooks_) check(hooks_->enter(hooks_->user, unit, pass));
    for (size_t i = 0; i < kSpecs.size(); ++i) {
      if (kSpecs[i].unit == unit) body(i);
    }
    if (hooks_) check(hooks_->leave(hooks_->user, unit, pass));
  }

  StrategyRun& run_;
  const pl_unit_hooks* hooks_ = nullptr;
};

State start() {
  StrategyRun run(kSpecs, adamw());
  State state = run.state();
  const Gradients values = random_gradients(kSpecs, 99);
  for (size_t i = 0; i < kSpecs.size(); ++i) {
    const at::Tensor value = values[i].defined() ? values[i].contiguous() : at::ones(kSpecs[i].shape);
    auto& bytes = state.at("value/" + kSpecs[i].name);
    if (!bytes.empty()) std::memcpy(bytes.data(), value.data_ptr(), bytes.size());
  }
  return state;
}

struct Result {
  std::vector<double> losses, norms;
  State state;
  bool operator==(const Result&) const = default;
};

Result run_walk(int world_size, RunOptions options, uint64_t micro_batches, uint64_t steps = 4) {
  const State begin = start();
  const auto results = each_rank(world_size, [&](const Rank& rank) {
    RunOptions mine = options;
    mine.group = rank.view();
    mine.micro_batches = micro_batches;
    StrategyRun run(kSpecs, adamw(), mine);
    run.load(begin, true);
    Walker walker(run);
    Result result;
    for (uint64_t step = 0; step < steps; ++step) {
      const auto share = share_of(rank, run, std::vector<MicroBatch>(micro_batches, {{}, at::ones({})}));
      const bool interleaved = run.strategy().info().micro_batch_order == PL_ORDER_INTERLEAVED;
      run.strategy().begin_step(share.size());
      for (size_t i = 0; i < share.size(); ++i) {
        const uint64_t m = interleaved
                               ? i * static_cast<uint64_t>(world_size) + static_cast<uint64_t>(rank.rank)
                               : static_cast<uint64_t>(rank.rank) * share.size() + i;
        walker.train(share[i].loss.defined() ? std::optional(100 * step + m) : std::nullopt);
      }
      const auto report = run.strategy().collect(run.strategy().step(StrategyRun::step_args(0.01, 1.0)));
      result.losses.push_back(report.loss_sum);
      result.norms.push_back(report.grad_norm);
    }
    result.state = run.state();
    EXPECT_EQ(run.live_gradients(), 0);
    return result;
  });
  Result all = results.front();
  for (size_t r = 1; r < results.size(); ++r) {
    EXPECT_EQ(results[r].losses, all.losses);
    EXPECT_EQ(results[r].norms, all.norms);
    append(all.state, results[r].state);
  }
  return all;
}

RunOptions stage3(bool reproducible, int slots, at::ScalarType dtype = at::kFloat, bool overlap = true) {
  return {.plugin = "sharded",
          .reproducible = reproducible,
          .dtype = dtype,
          .sets = {"strategy.zero_stage=3", "strategy.bucket_mib=0.05",
                   "strategy.unit_slots=" + std::to_string(slots),
                   std::string("strategy.overlap=") + (overlap ? "true" : "false")}};
}

TEST(ShardedUnits, GiveTheBitsOfSingle) {
  const Result single = run_walk(1, {.reproducible = true}, 7);
  for (const auto& [slots, ranks] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 2}, {2, 2}, {2, 3}, {2, 4}, {9, 3}}) {
    EXPECT_TRUE(run_walk(ranks, stage3(true, slots), 7) == single)
        << "on " << ranks << " ranks, " << slots << " slots";
  }
}

TEST(ShardedUnits, GiveTheBitsOfSingleWithNarrowParameters) {
  const Result single = run_walk(1, {.reproducible = true, .dtype = at::kBFloat16}, 4);
  for (const int ranks : {2, 4}) {
    EXPECT_TRUE(run_walk(ranks, stage3(true, 2, at::kBFloat16), 4) == single) << "on " << ranks << " ranks";
  }
}

TEST(ShardedUnits, GiveTheNumbersOfSingleWhileTheySendAsTheyGo) {
  const Result single = run_walk(1, {}, 7);
  for (const bool overlap : {true, false}) {
    for (const int ranks : {1, 2, 3, 4}) {
      const Result result = run_walk(ranks, stage3(false, 2, at::kFloat, overlap), 7);
      for (size_t step = 0; step < single.losses.size(); ++step) {
        EXPECT_NEAR(result.losses[step], single.losses[step], 1e-4 * std::abs(single.losses[step]));
        EXPECT_NEAR(result.norms[step], single.norms[step], 1e-5 * single.norms[step]);
      }
    }
  }
}

// Where all weights stay in place, a unit is waited for when it is entered.
TEST(ShardedUnits, AreWaitedForInTheOtherStages) {
  const Result single = run_walk(1, {.reproducible = true}, 7);
  for (const char* stage : {"1", "2"}) {
    for (const int ranks : {2, 3}) {
      const RunOptions options{
          .plugin = "sharded",
          .reproducible = true,
          .sets = {std::string("strategy.zero_stage=") + stage, "strategy.bucket_mib=0.05"}};
      EXPECT_TRUE(run_walk(ranks, options, 7) == single) << "stage " << stage << " on " << ranks << " ranks";
    }
  }
}

// Whoever keeps an address sees another unit there.
TEST(ShardedUnits, AreNotInMemoryWhenTheyAreNotInUse) {
  on_ranks(2, [](const Rank& rank) {
    RunOptions options = stage3(false, 2);
    options.group = rank.view();
    StrategyRun run(kSpecs, adamw(), options);
    EXPECT_TRUE(run.value(0).isnan().all().item<bool>());
    run.load(start(), true);
    const pl_unit_hooks& hooks = run.strategy().unit_hooks();
    const auto visit = [&](uint32_t unit) {
      check(hooks.enter(hooks.user, unit, PL_PASS_FORWARD));
      check(hooks.leave(hooks.user, unit, PL_PASS_FORWARD));
    };
    const Gradients values = random_gradients(kSpecs, 99);
    visit(0);
    visit(1);
    EXPECT_TRUE(run.value(1).equal(values[1]));
    visit(2);
    EXPECT_TRUE(run.value(2).equal(values[2]));
    EXPECT_TRUE(run.value(4).equal(at::ones({5000})));
    EXPECT_TRUE(run.value(1).equal(values[1]));  // still there: it will not be sent again
    visit(3);
    EXPECT_FALSE(run.value(1).equal(values[1]));
    EXPECT_TRUE(run.value(5).equal(values[5]));
    EXPECT_EQ(run.value(1).data_ptr(), run.value(5).data_ptr());
    EXPECT_TRUE(run.value(0).equal(values[0]));  // unit 0 shares its place with none
  });
}

// With two slots, units 1 and 3 share one, and units 2 and 4. Unit 2 is two collectives, since part of it is
// frozen.
TEST(ShardedUnits, AreGatheredOneAheadOnceTheWayIsKnownAndNotWhenTheyAreThere) {
  on_ranks(2, [](const Rank& rank) {
    RunOptions options = stage3(false, 2);
    options.sets.emplace_back("strategy.bucket_mib=1");
    options.group = rank.view();
    StrategyRun run(kSpecs, adamw(), options);
    const pl_unit_hooks& hooks = run.strategy().unit_hooks();
    const auto micro_batch = [&] {
      std::vector<size_t> gathered;
      const auto walk = [&](const std::vector<uint32_t>& units, uint32_t pass) {
        for (const uint32_t unit : units) {
          const size_t before = rank.started();
          check(hooks.enter(hooks.user, unit, pass));
          gathered.push_back(rank.started() - before);
          check(hooks.leave(hooks.user, unit, pass));
        }
      };
      walk(kForward, PL_PASS_FORWARD);
      walk(kBackward, PL_PASS_BACKWARD);
      run.end_micro_batch(at::ones({}));
      return gathered;
    };
    run.strategy().begin_step(2);
    EXPECT_THAT(micro_batch(), ElementsAre(1, 1, 2, 1, 1, 0, /* backward: */ 0, 0, 0, 2, 0));
    EXPECT_THAT(micro_batch(), ElementsAre(1, 0, 1, 1, 0, 0, /* backward: */ 0, 0, 2, 0, 0));
    run.strategy().step(StrategyRun::step_args(0.1));
  });
}

TEST(ShardedUnits, ThatNeedTheSamePlaceAtOnceAreAnError) {
  StrategyRun run(kSpecs, adamw(), stage3(false, 2));
  const pl_unit_hooks& hooks = run.strategy().unit_hooks();
  check(hooks.enter(hooks.user, 1, PL_PASS_FORWARD));
  try {
    check(hooks.enter(hooks.user, 3, PL_PASS_FORWARD));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("unit 3 is entered while another unit uses its slot: use strategy.unit_slots = 3 or more"));
  }
}

// An evaluation: some ranks go through the model, others do not.
TEST(ShardedUnits, AreAllInPlaceBetweenGatherAndRelease) {
  on_ranks(3, [](const Rank& rank) {
    RunOptions options = stage3(false, 1);
    options.group = rank.view();
    StrategyRun run(kSpecs, adamw(), options);
    run.load(start(), true);
    const Gradients values = random_gradients(kSpecs, 99);
    run.strategy().gather_values();
    for (size_t i = 0; i < kSpecs.size(); ++i) {
      if (values[i].defined()) {
        EXPECT_TRUE(run.value(i).equal(values[i])) << i;
      }
    }
    if (rank.rank == 1) Walker(run).forward(3);
    run.strategy().release_values();
    run.strategy().begin_step(1);
    Walker(run).train(4 + static_cast<uint64_t>(rank.rank));
    run.strategy().step(StrategyRun::step_args(0.01));
  });
}

}  // namespace
}  // namespace pipeline::strategies
