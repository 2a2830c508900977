// Nothing is lost: ranks killed at random moments, thirty times over the jobs, and the run that comes
// out is the one that nobody disturbed.
#include <csignal>
#include <random>
#include <type_traits>

#include <gtest/gtest.h>

#include "tests/e2e/jobs.hpp"

namespace pipeline::tests {
namespace {

// The smallest job, which starts again soonest, has half of the kills, and all those of one of four ranks.
template <class JobT>
constexpr int kKills = std::is_same_v<JobT, SmallJob> ? 15 : 3;
template <class JobT>
constexpr const char* kProcesses =
    std::is_same_v<JobT, SmallJob> ? "launch.processes=4" : "launch.processes=2";
// Whatever the machine's speed, a kill comes after this many steps at the latest, so that the run is not over
// before the last one.
constexpr size_t kStepsBetweenKills = 30;
template <class JobT>
constexpr size_t kSteps = 45 * kKills<JobT>;

template <class JobT>
class RandomKills : public testing::Test, public JobT {
 protected:
  Result train(const std::string& dir, const Words& more) const {
    return this->call("run", more + Words{"run.dir=" + dir, "evaluate.every=500"});
  }
};

TYPED_TEST_SUITE(RandomKills, Jobs, JobNames);

TYPED_TEST(RandomKills, LeaveNoTrace) {
  write_text(this->path("train.toml"), this->config() + "keep = 2\n[launch]\nmax_restarts = 1000\n");
  const std::string max_steps = "train.max_steps=" + std::to_string(kSteps<TypeParam>);
  ASSERT_EQ(this->train("undisturbed", {max_steps}).code, 0);

  Process run = this->start("run", {"run.dir=killed", "evaluate.every=500", max_steps, kProcesses<TypeParam>,
                                    "strategy.plugin=sharded", "checkpoint.every=10"});
  std::mt19937 random(4);  // the moments differ from run to run all the same
  const auto steps = [&] { return read_lines(this->path("killed/metrics.jsonl")).size(); };
  int kills = 0;
  while (kills < kKills<TypeParam> && run.is_running()) {
    using std::chrono::milliseconds, std::chrono::steady_clock;
    const auto moment = steady_clock::now() + milliseconds(std::uniform_int_distribution(100, 4000)(random));
    const size_t last_step = steps() + std::uniform_int_distribution<size_t>(1, kStepsBetweenKills)(random);
    while (steady_clock::now() < moment && steps() < last_step) std::this_thread::sleep_for(milliseconds(5));
    const std::vector<pid_t> ranks = run.children();
    if (ranks.empty() || !run.is_running()) continue;
    if (::kill(ranks[random() % ranks.size()], SIGKILL) == 0) ++kills;
  }
  const Result result = run.wait();
  EXPECT_EQ(kills, kKills<TypeParam>) << "the run was over before: make it longer";
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(this->curve("killed"), this->curve("undisturbed"));
  EXPECT_EQ(read_lines(this->path("killed/eval.jsonl")).size(),
            read_lines(this->path("undisturbed/eval.jsonl")).size());
}

}  // namespace
}  // namespace pipeline::tests
