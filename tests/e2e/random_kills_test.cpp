// Nothing is lost: ranks killed at random moments, fifty times, and the run that comes out is the one that nobody disturbed.
#include <csignal>
#include <random>

#include <gtest/gtest.h>

#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

constexpr int kKills = 50;

class RandomKills : public testing::Test, public SmallJob {
 protected:
  Result train(const std::string& dir, std::vector<std::string> more) const {
    more.insert(more.end(), {"--set", "run.dir=" + dir, "--set", "evaluate.every=500"});
    return call("run", more);
  }
};

TEST_F(RandomKills, LeaveNoTrace) {
  write_text(path("train.toml"), std::string(kSmallConfig) + "keep = 2\n[launch]\nmax_restarts = 1000\n");
  const std::vector<std::string> steps{"--set", "train.max_steps=6000"};
  ASSERT_EQ(train("undisturbed", steps).code, 0);

  std::vector<std::string> arguments{"run", "train.toml"};
  for (const char* set : {"run.dir=killed", "evaluate.every=500", "train.max_steps=6000", "launch.processes=4", "strategy.plugin=sharded", "checkpoint.every=10"})
    arguments.insert(arguments.end(), {"--set", set});
  Process run(pipeline_command(arguments), folder());
  std::mt19937 random(4);  // the moments differ from run to run all the same
  int kills = 0;
  while (kills < kKills && run.is_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(100, 4000)(random)));
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
