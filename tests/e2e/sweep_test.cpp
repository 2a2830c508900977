// `pipeline sweep` as a user runs it.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

class Sweep : public testing::Test, public SmallJob {
 protected:
  static Words halving(const char* folder) {
    return {"sweep",
            "train.toml",
            "--halve",
            "--repeat",
            "2",
            "--dir",
            folder,
            "--set",
            "optimizer.lr=1e-7,1e-5,1e-3,1e-2",
            "--set",
            "evaluate.every=2",
            "--set",
            "train.max_steps=8"};
  }
};

// Also where it is stopped in the middle: then the same command makes the same of it.
TEST_F(Sweep, TheWorseHalfIsLeftBehind) {
  const Result result = pipeline(halving("whole")).ended(0);
  EXPECT_THAT(result.out, HasSubstr("after step 2: 2 of 4 go on\n"));
  EXPECT_THAT(result.out, HasSubstr("after step 4: 1 of 2 go on\n"));
  EXPECT_THAT(result.out, ContainsRegex("1e-7 +2 .* left at step 2 "));
  EXPECT_THAT(result.out, ContainsRegex("\nBest: optimizer.lr = 1e-2, with loss .* ± "));
  EXPECT_THAT(result.out, HasSubstr("configuration: whole/lr=1e-2,seed=0/config.toml"));
  EXPECT_EQ(read_lines(path("whole/lr=1e-2,seed=1/metrics.jsonl")).size(), 8U);
  EXPECT_THAT(read_text(path("whole/sweep.html")), HasSubstr("\"keys\":[\"optimizer.lr\"]"));

  Process running(pipeline_command(halving("parts")), folder());
  ASSERT_TRUE(eventually([&] { return read_lines(path("parts/lr=1e-2,seed=0/metrics.jsonl")).size() > 1; }));
  running.signal(SIGINT);
  EXPECT_THAT(running.wait().ended(75).out, HasSubstr("the same command goes on from here"));
  pipeline(halving("parts")).ended(0);
  for (const std::string one : {"lr=1e-2,seed=0", "lr=1e-2,seed=1", "lr=1e-7,seed=0"}) {
    const auto whole = read_json_lines(path("whole/" + one + "/eval.jsonl")),
               parts = read_json_lines(path("parts/" + one + "/eval.jsonl"));
    ASSERT_GE(parts.size(), 1U) << one;
    EXPECT_EQ(whole[0]["loss"], parts[0]["loss"]) << one;
  }
  // A loser goes on.
  tests::pipeline({"run", "config.toml"}, path("whole/lr=1e-7,seed=0")).ended(0);
  EXPECT_EQ(read_lines(path("whole/lr=1e-7,seed=0/metrics.jsonl")).size(), 8U);
}

TEST_F(Sweep, ChoicesAtRandomAreTheSameEachTime) {
  const Words arguments{"sweep",    "train.toml",
                        "--sample", "3",
                        "--jobs",   "2",
                        "--dir",    "random",
                        "--set",    "optimizer.lr=1e-4..1e-2",
                        "--set",    "task.language.num_hidden_layers=1..2",
                        "--set",    "train.max_steps=2"};
  pipeline(arguments).ended(0);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(path("random")))
    if (entry.is_directory()) names.insert(entry.path().filename());
  EXPECT_EQ(names.size(), 3U);
  pipeline(arguments).ended(0);
  for (const auto& entry : fs::directory_iterator(path("random")))
    if (entry.is_directory()) {
      EXPECT_TRUE(names.contains(entry.path().filename()));
    }
}

TEST_F(Sweep, WrongUseIsNamed) {
  const auto said = [&](const Words& words) {
    return pipeline(Words{"sweep", "train.toml"} + words).ended(2).err;
  };
  EXPECT_THAT(said({"--set", "optimizer.lr=1e-3"}), HasSubstr("there is one run to make"));
  EXPECT_THAT(said({"--set", "optimizer.lrr=1e-3,1e-2"}), HasSubstr("optimizer.lrr=1e-3: unknown key"));
  EXPECT_THAT(said({"--set", "optimizer.lr=1e-3..1e-2"}),
              HasSubstr("a range has no end of values: give --sample N"));
  EXPECT_THAT(said({"--set", "optimizer.lr=1e-3,,1e-2"}), HasSubstr("a value is empty"));
  EXPECT_THAT(said({"--set", "optimizer.lr=1e-3,1e-2", "--halve", "--set", "evaluate.every=0"}),
              HasSubstr("--halve: needs evaluate.every"));
  EXPECT_THAT(said({"--set", "optimizer.lr=1e-3,1e-2", "--halve", "--set", "evaluate.every=100"}),
              HasSubstr("--halve: no evaluation comes before the end: set evaluate.every to at most"));
  EXPECT_FALSE(fs::exists(path("run-sweep"))) << "nothing was begun";
}

}  // namespace
}  // namespace pipeline::tests
