// Each strategy with its memory on a device against the same run on the CPU.
#include <ATen/record_function.h>

#include "tests/cuda/place.hpp"
#include "tests/strategies/job.hpp"

namespace pipeline::tests {
namespace {

using namespace strategies;

struct Case {
  const char* name;
  const char* plugin;
  std::vector<std::string> sets;
};

class Strategies : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!no_device().empty()) GTEST_SKIP() << no_device();
  }
  static RunOptions options(at::ScalarType type, bool on_device) {
    RunOptions made{.plugin = GetParam().plugin, .dtype = type, .sets = GetParam().sets};
    if (!on_device) {
      // On the CPU all is in host memory anyway, and the strategy refuses these options.
      std::erase_if(made.sets, [](const std::string& set) { return set.starts_with("strategy.offload"); });
      return made;
    }
    made.device = at::Device(at::kCUDA, 0);
    made.stream = device_stream();
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(All, Strategies,
                         ::testing::Values(Case{"single", "single", {}}, Case{"ddp", "ddp", {}},
                                           Case{"stage_1", "sharded", {"strategy.zero_stage=1"}},
                                           Case{"stage_2", "sharded", {"strategy.zero_stage=2"}},
                                           Case{"stage_3", "sharded", {"strategy.zero_stage=3"}},
                                           Case{"offload", "sharded", {"strategy.offload=true"}},
                                           Case{"offload_weights",
                                                "sharded",
                                                {"strategy.zero_stage=3", "strategy.offload=true",
                                                 "strategy.offload_weights=true"}},
                                           Case{"diloco", "diloco", {"strategy.sync_steps=4"}}),
                         [](const auto& one) { return one.param.name; });

// Losses, norms, clipping and both optimizers; published values are float32 or rounded from float32 masters.
TEST_P(Strategies, AreTheCpus) {
  for (const plugins::Optimizer& optimizer :
       {adamw(), in_bits(adamw(), 16), in_bits(adamw(), 8), sgd(0.9, 0.1, true)}) {
    const double bits = optimizer.options.contains("state_bits") ? optimizer.options.at("state_bits") : 32;
    const bool is_plain = optimizer.name == "adamw" && bits == 32;
    if (!is_plain && GetParam().name == std::string("diloco")) continue;  // it refuses that
    const Job job = difficult_job(3, optimizer);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const Outcome here = run_job(job, 1, options(type, true)),
                    there = run_job(job, 1, options(type, false));
      const double rounding = type == at::kFloat ? 0 : type == at::kHalf ? 1e-3 : 8e-3;
      // Moments in few bits may be rounded to the other neighbour where float32's last bit differs.
      const double of_moments = bits == 8 ? 1e-2 : bits == 16 ? 1e-3 : 0;
      EXPECT_LT(distance(here, there), 1e-4 + rounding + of_moments)
          << optimizer.name << " " << bits << " " << type;
      EXPECT_EQ(here.finite, there.finite);
    }
  }
}

TEST_P(Strategies, UpdateEachLossByItselfAsTheCpuDoes) {
  const Job job = difficult_job(3, with_ema(adamw())).with_two_losses();
  if (GetParam().name == std::string("diloco")) {
    EXPECT_THROW(StrategyRun(job.specs, job.optimizer, options(at::kFloat, true)), Error);
    return;
  }
  const Outcome here = run_job(job, 1, options(at::kFloat, true)),
                there = run_job(job, 1, options(at::kFloat, false));
  EXPECT_LT(distance(here, there), 1e-4);
  EXPECT_EQ(here.finite, there.finite);
  EXPECT_EQ(here.state.at("step"), there.state.at("step"));
}

TEST_P(Strategies, HaveTheSameBitsTwice) {
  RunOptions reproducible = options(at::kBFloat16, true);
  reproducible.reproducible = true;
  const Job job = difficult_job(3);
  EXPECT_EQ(run_job(job, 1, reproducible), run_job(job, 1, reproducible));
}

// A step whose gradients are not finite changes nothing, and is reported.
TEST_P(Strategies, SkipAStepThatIsNotFinite) {
  Job job = difficult_job(2);
  job.steps = 3;
  job.batch = [finite = job.batch](uint64_t step) {
    std::vector<MicroBatch> batch = finite(step);
    for (MicroBatch& one : batch)
      for (at::Tensor& gradient : one.gradients)
        if (gradient.defined()) gradient = gradient.clone();
    if (step == 1) batch[0].gradients[3].select(0, 5).fill_(INFINITY);
    return batch;
  };
  const Outcome here = run_job(job, 1, options(at::kFloat, true));
  EXPECT_EQ(here.finite, (std::vector<uint32_t>{1, 0, 1}));
  EXPECT_LT(distance(here, run_job(job, 1, options(at::kFloat, false))), 1e-4);
}

// What was saved on the CPU is continued on the device, and back: the state is the same bytes.
TEST_P(Strategies, TakeAStateFromTheCpuAndGiveItBack) {
  const Job job = difficult_job(2);
  const State saved = run_job(job, 1, options(at::kFloat, false)).state;
  StrategyRun run(job.specs, job.optimizer, options(at::kFloat, true));
  run.load(saved);
  EXPECT_EQ(run.state(), saved);
}

// Copies between host and device while it lives: aten::copy_, whatever asks for it.
class CountedCopies {
 public:
  struct Counts {
    int to_device, to_host, waits;  // waits: copies for which the host stands still
  };
  CountedCopies()
      : callback_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(begin).needsInputs(true).scopes({at::RecordScope::FUNCTION}))) {
    counts_ = {};
  }
  ~CountedCopies() { at::removeCallback(callback_); }
  CountedCopies(const CountedCopies&) = delete;
  CountedCopies& operator=(const CountedCopies&) = delete;
  const Counts& counts() const { return counts_; }

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    if (std::string_view(function.name()) != "aten::copy_") return nullptr;
    const at::Tensor to = function.inputs()[0].toTensor(), from = function.inputs()[1].toTensor();
    if (to.is_cpu() == from.is_cpu() || from.numel() == 1) return nullptr;
    ++(to.is_cpu() ? counts_.to_host : counts_.to_device);
    if (!function.inputs()[2].toBool()) ++counts_.waits;
    return nullptr;
  }

  static inline thread_local Counts counts_{};
  at::CallbackHandle callback_;
};

// Each unit's weights come once for a pass; in the update each part comes and goes once, as its two moments
// do; and the host waits for none of it.
TEST(OffloadedWeights, AreCopiedOnceForEachUse) {
  if (!no_device().empty()) GTEST_SKIP() << no_device();
  constexpr uint32_t kUnits = 6;
  std::vector<ParameterSpec> specs;
  for (uint32_t unit = 0; unit < kUnits; ++unit)
    specs.push_back({"w" + std::to_string(unit), {64, 256}, true, 1, true, unit});
  StrategyRun run(
      specs, adamw(),
      {.plugin = "sharded",
       .device = at::Device(at::kCUDA, 0),
       .stream = device_stream(),
       .sets = {"strategy.zero_stage=3", "strategy.offload=true", "strategy.offload_weights=true"}});
  const pl_unit_hooks& hooks = run.strategy().unit_hooks();
  const auto step = [&](uint64_t seed) {
    const Gradients gradients = random_gradients(specs, seed);
    run.strategy().begin_step(1);
    const auto visit = [&](uint32_t unit, uint32_t pass) {
      check(hooks.enter(hooks.user, unit, pass));
      if (pass == PL_PASS_BACKWARD) run.deliver(unit, gradients[unit]);
      check(hooks.leave(hooks.user, unit, pass));
    };
    for (uint32_t unit = 0; unit < kUnits; ++unit) visit(unit, PL_PASS_FORWARD);
    for (uint32_t unit = kUnits; unit-- > 0;) visit(unit, PL_PASS_BACKWARD);
    run.end_micro_batch(at::ones({}, at::kDouble));
    return run.strategy().step(StrategyRun::step_args(0.01));
  };
  for (uint64_t i = 0; i < 3; ++i)
    run.strategy().collect(step(i));  // the order of units is known after the first
  const CountedCopies counted;
  const uint64_t ticket = step(3);
  const CountedCopies::Counts counts = counted.counts();
  run.strategy().collect(ticket);
  // Unit 0 has a slot of its own, and of the others two are still there when the pass turns round.
  constexpr int kGathers = 2 * (static_cast<int>(kUnits) - 1) - 2 + 1;
  EXPECT_EQ(counts.to_device,
            kGathers + 3 * static_cast<int>(kUnits) + static_cast<int>(kUnits));  // the last term: gradients
  EXPECT_EQ(counts.to_host, 3 * static_cast<int>(kUnits) + 1);                    // the 1: the report
  EXPECT_EQ(counts.waits, static_cast<int>(kUnits));  // the test's own: its gradients
}

}  // namespace
}  // namespace pipeline::tests
