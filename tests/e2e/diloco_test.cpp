// `diloco` over two processes: a run of its own, which goes on exactly where it was stopped or killed.
#include <csignal>
#include <map>

#include <gmock/gmock.h>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kConfig = R"([run]
dir = "run"
device = "cpu"
reproducible = true
[task]
plugin = "template"
samples = 400
[strategy]
plugin = "diloco"
sync_steps = 4
[launch]
processes = 2
)";

class DilocoJob : public Job {
 public:
  DilocoJob() { write_text(path("train.toml"), std::string(kConfig) + kShortTraining); }
};

class Diloco : public SameRunOf<DilocoJob> {
 protected:
  Result run(const std::string& dir, const Words& sets = {}) const {
    return call("run", sets + Words{"run.dir=" + dir});
  }
  std::vector<nlohmann::json> evaluations(const std::string& dir) const {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : read_lines(path(dir + "/eval.jsonl"))) {
      lines.push_back(nlohmann::json::parse(line));
      lines.back().erase("seconds");
    }
    return lines;
  }
};

TEST_F(Diloco, SaysWhatItsLossesAreAndGoesOnBetweenTwoOuterSteps) {
  const Result whole = run("whole").ended(0);
  EXPECT_THAT(whole.out + whole.err, HasSubstr("DiLoCo: 2 process(es), joined every 4 updates"));
  EXPECT_THAT(whole.out + whole.err, HasSubstr("run.reproducible = true holds for 2 process(es)"));
  for (const char* steps : {"train.max_steps=6", "train.max_steps=12"}) run("parts", {steps}).ended(0);
  EXPECT_EQ(curve("parts"), curve("whole"));
  EXPECT_EQ(evaluations("parts"), evaluations("whole"));
  const std::string parameters = exported("whole");
  EXPECT_EQ(exported("parts"), parameters);
  for (const char* backend : {"backend.plugin=gloo", "backend.plugin=shm"}) {
    const std::string dir = std::string(backend).substr(15);
    run(dir, {backend}).ended(0);
    EXPECT_EQ(curve(dir), curve("whole"));
    EXPECT_EQ(exported(dir), parameters);
  }
}

// 50 samples for steps of 8 in micro-batches of 2: the seventh has 2, all of them the first process's. 24
// samples in a micro-batch of 32: the second process never has one.
TEST_F(Diloco, TakesShortSteps) {
  for (const auto& [dir, sets] : std::map<std::string, Words>{
           {"short", {"task.samples=50", "train.max_steps=21"}},
           {"few", {"task.samples=24", "train.global_batch=64", "train.micro_batch=32"}}}) {
    const Result result = run(dir, sets).ended(0);
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("not finite")));
    std::vector<double> losses;
    for (const std::string& line : read_lines(path(dir + "/metrics.jsonl"))) {
      const auto step = nlohmann::json::parse(line);
      EXPECT_FALSE(step.value("skipped", false)) << line;
      losses.push_back(step["loss"]);
    }
    ASSERT_GE(losses.size(), 12u);
    EXPECT_LT(losses[4], losses[0] / 2);  // after the first outer step
  }
}

TEST_F(Diloco, GoesOnAfterAKill) {
  const Words sets{"train.max_steps=300", "evaluate.every=0", "checkpoint.every=5"};
  run("undisturbed", sets).ended(0);
  const auto steps = [&] { return read_lines(path("killed/metrics.jsonl")).size(); };
  Process first = start("run", sets + Words{"run.dir=killed"});
  ASSERT_TRUE(eventually([&] { return steps() > 10 || !first.is_running(); }));
  const std::vector<pid_t> ranks = first.children();
  ASSERT_EQ(ranks.size(), 2u) << first.wait().err;
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(first.wait().code, 1);
  ASSERT_LT(steps(), 300u) << "the run was over before the kill: make it longer";
  const Result second = run("killed", sets).ended(0);
  EXPECT_THAT(second.out + second.err, HasSubstr("continued from killed/checkpoints/step-"));
  EXPECT_EQ(curve("killed"), curve("undisturbed"));
  EXPECT_EQ(exported("killed"), exported("undisturbed"));
}

TEST_F(Diloco, GoesOnWithAsManyProcessesOnlyAndOthersBeginWithItsWeights) {
  run("run").ended(0);
  EXPECT_THAT(run("run", {"launch.processes=1", "train.max_steps=14"}).ended(2).err,
              HasSubstr("the checkpoint is of 2 process(es), this run has 1: go on as it was saved"));
  run("run", {"strategy.plugin=ddp", "strategy.sync_steps=4", "train.max_steps=14"}).ended(2);
  const Result next =
      run("next", {"launch.processes=1", "train.init_from=run", "train.max_steps=2"}).ended(0);
  EXPECT_THAT(next.out + next.err, HasSubstr("weights from run/checkpoints/step-"));
}

}  // namespace
}  // namespace pipeline::tests
