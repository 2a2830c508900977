// Each strategy with its memory on a device against the same run on the CPU.
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
      std::erase(made.sets, "strategy.offload=true");  // its state is on the host anyway, and it says so
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
                                           Case{"diloco", "diloco", {"strategy.sync_steps=4"}}),
                         [](const auto& one) { return one.param.name; });

// Losses, norms, clipping and both optimizers; published values are float32 or rounded from float32 masters.
TEST_P(Strategies, AreTheCpus) {
  for (const plugins::Optimizer& optimizer : {adamw(), sgd(0.9, 0.1, true)}) {
    if (optimizer.name == "sgd" && GetParam().name == std::string("diloco")) continue;  // it refuses that
    const Job job = difficult_job(3, optimizer);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const Outcome here = run_job(job, 1, options(type, true)),
                    there = run_job(job, 1, options(type, false));
      const double rounding = type == at::kFloat ? 0 : type == at::kHalf ? 1e-3 : 8e-3;
      EXPECT_LT(distance(here, there), 1e-4 + rounding) << optimizer.name << " " << type;
      EXPECT_EQ(here.finite, there.finite);
    }
  }
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

}  // namespace
}  // namespace pipeline::tests
