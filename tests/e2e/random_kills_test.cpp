// Nothing is lost: ranks killed at random moments, fifty times, and the run that comes out is the one that nobody disturbed.
#include <csignal>
#include <random>

#include <gtest/gtest.h>

#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

constexpr int kKills = 50;
// Whatever the machine's speed, a kill comes after this many steps at the latest, so that the run is not over before the last one.
constexpr size_t kStepsBetweenKills = 60;
constexpr size_t kSteps = 4500;

class RandomKills : public testing::Test, public SmallJob {
 protected:
  Result train(const std::string& dir, std::vector<std::string> more) const {
    more.insert(more.end(), {"--set", "run.dir=" + dir, "--set", "evaluate.every=500"});
    return call("run", more);
  }
};

TEST_F(RandomKills, LeaveNoTrace) {
  write_text(path("train.toml"), std::string(kSmallConfig) + "keep = 2\n[launch]\nmax_restarts = 1000\n");
  const std::string max_steps = "train.max_steps=" + std::to_string(kSteps);
  ASSERT_EQ(train("undisturbed", {"--set", max_steps}).code, 0);

  std::vector<std::string> arguments{"run", "train.toml"};
  for (const std::string set : {"run.dir=killed", "evaluate.every=500", max_steps.c_str(), "launch.processes=4", "strategy.plugin=sharded", "checkpoint.every=10"})
    arguments.insert(arguments.end(), {"--set", set});
  Process run(pipeline_command(arguments), folder());
  std::mt19937 random(4);  // the moments differ from run to run all the same
  const auto steps = [&] { return read_lines(path("killed/metrics.jsonl")).size(); };
  int kills = 0;
  while (kills < kKills && run.is_running()) {
    using std::chrono::milliseconds, std::chrono::steady_clock;
    const auto moment = steady_clock::now() + milliseconds(std::uniform_int_distribution(100, 4000)(random));
    const size_t last_step = steps() + std::uniform_int_distribution<size_t>(1, kStepsBetweenKills)(random);
    while (steady_clock::now() < moment && steps() < last_step) std::this_thread::sleep_for(milliseconds(5));
    const std::vector<pid_t> ranks = run.children();
    if (ranks.empty() || !run.is_running()) continue;
    if (::kill(ranks[random() % ranks.size()], SIGKILL) == 0) ++kills;
  }
  const Result result = run.wait();
  EXPECT_EQ(kills, kKills) << "the run was over before: make it longer";
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(curve("killed"), curve("undisturbed"));
  EXPECT_EQ(read_lines(path("killed/eval.jsonl")).size(), read_lines(path("undisturbed/eval.jsonl")).size());
}

}  // namespace
}  // namespace pipeline::tests
