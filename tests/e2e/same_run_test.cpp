// One configuration, any strategy, any number of processes: the same run.
#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Arrangement {
  std::string strategy;  // "ddp", or "sharded2" for stage 2
  int processes;
  std::string backend = "auto";

  std::string name() const { return strategy + "_" + std::to_string(processes) + (backend == "auto" ? "" : "_" + backend); }
  std::vector<std::string> sets() const {
    const bool sharded = strategy.starts_with("sharded");
    std::vector<std::string> sets{"--set", "strategy.plugin=" + (sharded ? "sharded" : strategy), "--set", "launch.processes=" + std::to_string(processes)};
    if (sharded) sets.insert(sets.end(), {"--set", "strategy.zero_stage=" + strategy.substr(7)});
    if (backend != "auto") sets.insert(sets.end(), {"--set", "backend.plugin=" + backend});
    return sets;
  }
};

class SameRun : public testing::Test, public SmallJob {
 protected:
  // Trains in the folder `arrangement.name()`, or goes on in `dir`.
  void train(const Arrangement& arrangement, std::vector<std::string> more = {}, std::string dir = {}) {
    if (dir.empty()) dir = arrangement.name();
    for (const std::string& text : arrangement.sets()) more.push_back(text);
    more.insert(more.end(), {"--set", "run.dir=" + dir});
    const Result run = call("run", more);
    ASSERT_EQ(run.code, 0) << arrangement.name() << "\n" << run.out << run.err;
  }
  // The parameters as another tool reads them.
  std::string exported(const std::string& dir) {
    const Result run = call("export", {"--set", "run.dir=" + dir, "--checkpoint", "last"});
    EXPECT_EQ(run.code, 0) << run.out << run.err;
    return read_text(path(dir + "/export/model.safetensors"));
  }
  // Loss and gradient norm of every step. AdamW hides a gradient that is wrong by a factor; the norm does not.
  std::vector<double> losses(const std::string& dir) const {
    std::vector<double> values;
    for (const std::string& line : read_lines(path(dir + "/metrics.jsonl"))) {
      const auto json = nlohmann::json::parse(line);
      values.insert(values.end(), {json["loss"], json["grad_norm"]});
    }
    return values;
  }
  void expect_close(const std::string& dir, const std::vector<double>& expected, double tolerance) const {
    const std::vector<double> seen = losses(dir);
    ASSERT_EQ(seen.size(), expected.size()) << dir;
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i] / expected[i], 1, tolerance) << dir << (i % 2 == 0 ? " loss" : " norm") << " of step " << i / 2 + 1;
  }
};

const std::vector<std::string> kStrategies{"ddp", "sharded1", "sharded2", "sharded3"};

TEST_F(SameRun, HasTheSameBitsUnderEveryStrategyOnPowersOfTwo) {
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

TEST_F(SameRun, StaysWithinAMillionthOnThreeProcesses) {
  train({"single", 1});
  for (const std::string& strategy : kStrategies) {
    const Arrangement arrangement{strategy, 3};
    train(arrangement);
    expect_close(arrangement.name(), losses("single_1"), 1e-6);
  }
}

TEST_F(SameRun, StaysCloseInTheFastMode) {
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

TEST_F(SameRun, IsTheSameOverEveryBackend) {
  train({"single", 1});
  for (const char* backend : {"gloo", "shm"}) {
    const Arrangement arrangement{"ddp", 2, backend};
    train(arrangement);
    EXPECT_EQ(curve(arrangement.name()), curve("single_1")) << backend;
  }
}

TEST_F(SameRun, GoesOnWithAnyStrategyAndNumberOfProcesses) {
  train({"single", 1});
  int step = 0;
  for (const Arrangement& arrangement : {Arrangement{"ddp", 4}, Arrangement{"sharded2", 2}, Arrangement{"single", 1}, Arrangement{"sharded3", 4}, Arrangement{"ddp", 2}, Arrangement{"sharded1", 2}})
    train(arrangement, {"--set", "train.max_steps=" + std::to_string(step += 2)}, "chain");
  EXPECT_EQ(curve("chain"), curve("single_1"));
  EXPECT_EQ(exported("chain"), exported("single_1"));
}

TEST_F(SameRun, GoesOnAfterThreeProcessesWithinAMillionth) {
  train({"single", 1});
  int step = 0;
  for (const Arrangement& arrangement : {Arrangement{"ddp", 4}, Arrangement{"ddp", 2}, Arrangement{"single", 1}, Arrangement{"sharded2", 3}})
    train(arrangement, {"--set", "train.max_steps=" + std::to_string(step += 3)}, "chain");
  expect_close("chain", losses("single_1"), 1e-6);
}

TEST_F(SameRun, EvaluatesAndPredictsTheSame) {
  write_text(path("val.jsonl"), small_pairs(100, 37));
  train({"single", 1});
  train({"ddp", 2});
  train({"sharded3", 3}, {"--set", "train.max_steps=6"});
  // Between the steps of training.
  const auto evaluations = [&](const std::string& dir) {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : read_lines(path(dir + "/eval.jsonl"))) {
      lines.push_back(nlohmann::json::parse(line));
      lines.back().erase("seconds");
    }
    return lines;
  };
  EXPECT_EQ(evaluations("ddp_2"), evaluations("single_1"));
  // By a verb, of one checkpoint.
  const auto with = [&](const std::string& verb, int processes, std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "run.dir=single_1", "--set", "launch.processes=" + std::to_string(processes), "--output",
                             path("out-" + std::to_string(processes)).string()});
    const Result result = call(verb, more);
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    return read_text(path("out-" + std::to_string(processes)));
  };
  const auto evaluated = [&](int processes) {
    auto json = nlohmann::json::parse(with("evaluate", processes, {"--split", "val"}));
    json.erase("seconds");
    return json;
  };
  const auto expected = evaluated(1);
  EXPECT_EQ(expected["samples"], 37);
  const std::string rows = with("predict", 1, {});
  EXPECT_THAT(rows, HasSubstr("x3,"));
  for (const int processes : {2, 3, 4}) {
    EXPECT_EQ(evaluated(processes), expected) << processes;
    EXPECT_EQ(with("predict", processes, {}), rows) << processes;
  }
}

}  // namespace
}  // namespace pipeline::tests
