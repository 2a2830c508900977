// One configuration, any strategy, any number of processes: the same run.
#include <cmath>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

using SameRunMatrix = SameRun;

const std::vector<std::string> kStrategies{"ddp", "sharded1", "sharded2", "sharded3"};

TEST_F(SameRunMatrix, HasTheSameBitsUnderEveryStrategyOnPowersOfTwo) {
  const Arrangement single{"single", 1};
  train(single);
  const auto curve = this->curve("single_1");
  ASSERT_EQ(curve.size(), 12u);
  const std::string parameters = exported("single_1");
  ASSERT_GT(parameters.size(), 1000u);
  for (const std::string& strategy : kStrategies)
    for (const int processes : {1, 2, 4}) {
      const Arrangement arrangement{strategy, processes};
      train(arrangement);
      EXPECT_EQ(this->curve(arrangement.name()), curve) << arrangement.name();
      EXPECT_EQ(exported(arrangement.name()), parameters) << arrangement.name();
    }
}

TEST_F(SameRunMatrix, StaysWithinAMillionthOnThreeProcesses) {
  train({"single", 1});
  for (const std::string& strategy : kStrategies) {
    const Arrangement arrangement{strategy, 3};
    train(arrangement);
    expect_close(arrangement.name(), losses("single_1"), 1e-6);
  }
}

TEST_F(SameRunMatrix, StaysCloseInTheFastMode) {
  const std::vector<std::string> fast{"--set", "run.reproducible=false", "--set", "train.max_steps=50", "--set", "launch.threads=1", "--set", "optimizer.lr=1e-3"};
  train({"single", 1}, fast);
  ASSERT_EQ(losses("single_1").size(), 100u);
  for (const std::string& strategy : kStrategies)
    for (const int processes : {1, 2, 3, 4}) {
      const Arrangement arrangement{strategy, processes};
      train(arrangement, fast);
      expect_close(arrangement.name(), losses("single_1"), 1e-5);
    }
}

TEST_F(SameRunMatrix, GoesOnWithAnyStrategyAndNumberOfProcesses) {
  train({"single", 1});
  int step = 0;
  for (const Arrangement& arrangement : {Arrangement{"ddp", 4}, Arrangement{"sharded2", 2}, Arrangement{"single", 1}, Arrangement{"sharded3", 4}, Arrangement{"ddp", 2}, Arrangement{"sharded1", 2}})
    train(arrangement, {"--set", "train.max_steps=" + std::to_string(step += 2)}, "chain");
  EXPECT_EQ(curve("chain"), curve("single_1"));
  EXPECT_EQ(exported("chain"), exported("single_1"));
}

TEST_F(SameRunMatrix, GoesOnAfterThreeProcessesWithinAMillionth) {
  train({"single", 1});
  int step = 0;
  for (const Arrangement& arrangement : {Arrangement{"ddp", 4}, Arrangement{"ddp", 2}, Arrangement{"single", 1}, Arrangement{"sharded2", 3}})
    train(arrangement, {"--set", "train.max_steps=" + std::to_string(step += 3)}, "chain");
  expect_close("chain", losses("single_1"), 1e-6);
}

}  // namespace
}  // namespace pipeline::tests
