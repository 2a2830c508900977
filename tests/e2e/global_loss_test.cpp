// A loss over the global batch is that of one process with all of it, however the batch is cut and
// distributed.
#include <cmath>

#include "tests/e2e/same_run.hpp"

namespace pipeline::tests {
namespace {

// 45 samples in steps of 16: the last step of an epoch has 13, and some ranks none of them.
const std::string kPairsConfig = reproducible_run("pairs") + R"([optimizer]
lr = 1e-2
[schedule]
kind = "constant"
[train]
global_batch = 16
micro_batch = 2
max_steps = 12
[evaluate]
every = 6
[checkpoint]
every = 5
)";

class PairsJob : public Job {
 public:
  PairsJob() { write_text(path("train.toml"), kPairsConfig); }
};

using GlobalLoss = SameRunOf<PairsJob>;

using Sets = Words;

TEST_F(GlobalLoss, HasTheSameBitsUnderEveryStrategyOnPowersOfTwo) {
  train({"single", 1});
  const auto curve = this->curve("single_1");
  ASSERT_EQ(curve.size(), 12u);
  const std::string parameters = exported("single_1");
  std::vector<Arrangement> all{{"sharded3", 1}, {"sharded3", 8}};
  for (const char* strategy : {"ddp", "sharded1", "sharded2", "sharded3"})
    for (const int processes : {2, 4}) all.push_back({strategy, processes});
  for (const Arrangement& arrangement : all) {
    train(arrangement);
    EXPECT_EQ(this->curve(arrangement.name()), curve) << arrangement.name();
    EXPECT_EQ(exported(arrangement.name()), parameters) << arrangement.name();
  }
}

TEST_F(GlobalLoss, StaysCloseInTheFastMode) {
  const Sets fast{"run.reproducible=false", "launch.threads=1"};
  train({"single", 1}, fast);
  for (const Arrangement& arrangement : {Arrangement{"ddp", 3}, Arrangement{"sharded1", 4},
                                         Arrangement{"sharded2", 3}, Arrangement{"sharded3", 3}}) {
    train(arrangement, fast);
    expect_close(arrangement.name(), losses("single_1"), 1e-5);
  }
}

// Dropout is off: its masks belong to micro-batches.
TEST_F(GlobalLoss, DoesNotDependOnTheMicroBatch) {
  const auto with = [](int micro_batch) {
    return Sets{"task.dropout=0", "train.micro_batch=" + std::to_string(micro_batch)};
  };
  train({"single", 1}, with(16), "whole");
  for (const int micro_batch : {8, 4, 1}) {
    train({"single", 1}, with(micro_batch), "cut");
    expect_close("cut", losses("whole"), 1e-5);
    std::filesystem::remove_all(path("cut"));
  }
  train({"sharded3", 2}, with(8), "cut");
  expect_close("cut", losses("whole"), 1e-5);
  // Nor is the loss that of the micro-batches, which has fewer samples to tell apart.
  EXPECT_GT(losses("whole")[0], std::log(16.0) - 0.5);
}

TEST_F(GlobalLoss, IsTheSameWhenActivationsAreComputedAgain) {
  train({"single", 1});
  const Sets again{"train.activation_checkpointing=true"};
  train({"single", 1}, again, "again");
  train({"sharded3", 2}, again, "again_sharded");
  EXPECT_EQ(curve("again"), curve("single_1"));
  EXPECT_EQ(curve("again_sharded"), curve("single_1"));
}

TEST_F(GlobalLoss, GoesOnWithAnyStrategyAndNumberOfProcesses) {
  train({"single", 1});
  const std::vector<Arrangement> chain{{"ddp", 4}, {"sharded2", 2}, {"single", 1}, {"sharded3", 4}};
  for (size_t i = 0; i < chain.size(); ++i)
    train(chain[i], {"train.max_steps=" + std::to_string((i + 1) * 3)}, "chain");
  EXPECT_EQ(curve("chain"), curve("single_1"));
  EXPECT_EQ(exported("chain"), exported("single_1"));
}

// The loss is of evaluation batches, which are the same for any number of processes.
TEST_F(GlobalLoss, EvaluatesTheSameOnAnyNumberOfProcesses) {
  train({"single", 1});
  const auto evaluated = [&](const char* processes) {
    call("evaluate", {"run.dir=single_1", std::string("launch.processes=") + processes}).ended(0);
    return read_json(path("single_1/evaluation-test.json"))["figures"].dump();
  };
  EXPECT_EQ(evaluated("1"), evaluated("4"));
}

TEST_F(GlobalLoss, IsPlannedAndFindsItsMicroBatch) {
  call("plan").ended(0);
  train({"sharded3", 2}, {"train.micro_batch=auto"}, "auto");
  call("find-lr", {"--steps", "12"}).ended(0);
}

TEST_F(GlobalLoss, SaysWhatIsWrongWithOutputsAndLosses) {
  const auto said = [&](const char* oddity) {
    return call("run", {std::string("task.oddity=") + oddity, "--fresh"}).ended(1).err;
  };
  EXPECT_NE(said("room").find("outputs() returned shape (2, 16), expected (2, 17)"), std::string::npos);
  EXPECT_NE(said("losses").find("global_loss() returned shape (), expected (16)"), std::string::npos);
}

}  // namespace
}  // namespace pipeline::tests
