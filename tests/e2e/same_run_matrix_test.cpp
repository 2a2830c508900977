// One configuration, any strategy, any number of processes: the same run.
#include <type_traits>

#include "tests/e2e/jobs.hpp"
#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

template <class JobT>
using SameRunMatrix = SameRunOf<JobT>;
TYPED_TEST_SUITE(SameRunMatrix, Jobs, JobNames);

const Words kStrategies{"ddp", "sharded1", "sharded2", "sharded3", "sharded2-1"};

// A strategy does not know the task, nor a task the strategy: one job goes through all of the matrix, the
// others along its diagonal. How three ranks' sums are rounded is the strategies' affair alone.
template <class JobT>
constexpr bool kWholeMatrix = std::is_same_v<JobT, SmallJob>;

template <class JobT>
std::vector<Arrangement> arrangements(std::vector<int> processes) {
  if (!kWholeMatrix<JobT>) return {{"ddp", processes.front()}, {"sharded3", processes.back()}};
  std::vector<Arrangement> all{{"sharded3", 1}};
  for (const std::string& strategy : kStrategies)
    for (const int count : processes) all.push_back({strategy, count});
  return all;
}

TYPED_TEST(SameRunMatrix, HasTheSameBitsUnderEveryStrategyOnPowersOfTwo) {
  const Arrangement single{"single", 1};
  this->train(single);
  const auto curve = this->curve("single_1");
  ASSERT_EQ(curve.size(), 12u);
  const std::string parameters = this->exported("single_1");
  ASSERT_GT(parameters.size(), 1000u);
  for (const Arrangement& arrangement : arrangements<TypeParam>({2, 4})) {
    this->train(arrangement);
    EXPECT_EQ(this->curve(arrangement.name()), curve) << arrangement.name();
    EXPECT_EQ(this->exported(arrangement.name()), parameters) << arrangement.name();
  }
}

TYPED_TEST(SameRunMatrix, StaysCloseInTheFastMode) {
  const Words fast{"run.reproducible=false", "train.max_steps=50", "launch.threads=1", "optimizer.lr=1e-3"};
  this->train({"single", 1}, fast);
  ASSERT_EQ(this->losses("single_1").size(), 100u);
  for (const Arrangement& arrangement : arrangements<TypeParam>({3})) {
    this->train(arrangement, fast);
    this->expect_close(arrangement.name(), this->losses("single_1"), 1e-5);
  }
}

TYPED_TEST(SameRunMatrix, GoesOnWithAnyStrategyAndNumberOfProcesses) {
  this->train({"single", 1});
  std::vector<Arrangement> chain{{"ddp", 4},      {"sharded2", 2}, {"single", 1},
                                 {"sharded3", 4}, {"ddp", 2},      {"sharded1", 2}};
  if (!kWholeMatrix<TypeParam>) chain = {{"ddp", 2}, {"single", 1}, {"sharded3", 4}};
  const size_t steps = 12 / chain.size();
  for (size_t i = 0; i < chain.size(); ++i)
    this->train(chain[i], {"train.max_steps=" + std::to_string((i + 1) * steps)}, "chain");
  EXPECT_EQ(this->curve("chain"), this->curve("single_1"));
  EXPECT_EQ(this->exported("chain"), this->exported("single_1"));
}

using ThreeProcesses = SameRunOf<SmallJob>;

TEST_F(ThreeProcesses, StayWithinAMillionth) {
  this->train({"single", 1});
  for (const std::string& strategy : kStrategies) {
    this->train({strategy, 3});
    this->expect_close(Arrangement{strategy, 3}.name(), this->losses("single_1"), 1e-6);
  }
}

TEST_F(ThreeProcesses, GoOnWithinAMillionth) {
  this->train({"single", 1});
  int step = 0;
  for (const Arrangement& arrangement :
       {Arrangement{"ddp", 4}, Arrangement{"ddp", 2}, Arrangement{"single", 1}, Arrangement{"sharded2", 3}})
    this->train(arrangement, {"train.max_steps=" + std::to_string(step += 3)}, "chain");
  this->expect_close("chain", this->losses("single_1"), 1e-6);
}

}  // namespace
}  // namespace pipeline::tests
