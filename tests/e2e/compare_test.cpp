// `pipeline compare` and `pipeline report` as a user runs them.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Compare : public testing::Test, public SmallJob {
 protected:
  Result compare(const Words& arguments) const { return pipeline(Words{"compare"} + arguments); }
};

TEST_F(Compare, RunsWhatHasNotRunAndSaysWhetherItIsTheSame) {
  write_text(path("train.toml"), config());
  const Words arguments{"train.toml",  "--strategies", "single,ddp,sharded:2",
                        "--processes", "1,2",          "--tolerance",
                        "0",           "--rounds",     "2"};
  const Result result = compare(arguments).ended(0);
  EXPECT_THAT(result.out, HasSubstr("round 1/2, sharded2-2: at step"));
  EXPECT_THAT(result.out, testing::ContainsRegex("sharded2-2 +12 .* equal to the bit in 12 steps"));
  EXPECT_THAT(result.out,
              testing::ContainsRegex("single-2 .* not run: the strategy single is for one process"));
  EXPECT_THAT(result.out, HasSubstr("\nThe losses are the same (tolerance 0, relative).\n"));
  EXPECT_FALSE(fs::exists(path("run-compare/single-2"))) << "single is for one process";
  EXPECT_THAT(read_text(path("run-compare/compare.html")), HasSubstr("sharded2-2"));
  // What has run is not run again.
  const auto written = fs::last_write_time(path("run-compare/sharded2-2/metrics.jsonl"));
  EXPECT_EQ(compare(arguments).code, 0);
  EXPECT_EQ(fs::last_write_time(path("run-compare/sharded2-2/metrics.jsonl")), written);

  // Folders of runs can be compared, and losses from elsewhere.
  compare({"run-compare/single-1", "run-compare/sharded2-2", "--output", "two.html"}).ended(0);
  EXPECT_TRUE(fs::exists(path("two.html")));
  std::string csv = "step,loss\n";
  for (const auto& json : read_json_lines(path("run-compare/sharded2-2/metrics.jsonl"))) {
    csv += json["step"].dump() + "," + json["loss"].dump() + "\n";
  }
  write_text(path("theirs.csv"), csv);
  EXPECT_THAT(compare({"run-compare/single-1", "--against", "theirs.csv"}).out,
              HasSubstr("equal to the bit in 12 steps"));
  const Result one = compare({"train.toml", "--against", "theirs.csv", "--rounds", "1"}).ended(0);
  EXPECT_THAT(one.out, testing::ContainsRegex("\ntrain +12 .* equal to the bit in 12 steps"));
  write_text(path("theirs.csv"), csv + "13,1\n" + "14,2\n");
  EXPECT_EQ(compare({"run-compare/single-1", "--against", "theirs.csv"}).code, 0)
      << "steps of one alone do not count";
  write_text(path("theirs.csv"), "step,loss\n1,1\n2,1\n");
  const Result other = compare({"run-compare/single-1", "--against", "theirs.csv"}).ended(1);
  EXPECT_THAT(other.out, HasSubstr("theirs.csv: the step is step, the loss is loss\n"));
  EXPECT_THAT(other.out, HasSubstr("The losses are NOT the same"));

  // The configuration that a run keeps finds the data from anywhere.
  tests::pipeline({"evaluate", ".", "--split", "val"}, path("run-compare/single-1")).ended(0);
  EXPECT_TRUE(fs::exists(path("run-compare/single-1/evaluation-val.json")));
  for (const char* const verb : {"check", "run"})
    EXPECT_EQ(tests::pipeline({verb, "../single-1"}, path("run-compare/sharded2-2")).code, 0) << verb;

  pipeline({"report", "run-compare/sharded2-2"}).ended(0);
  EXPECT_THAT(read_text(path("run-compare/sharded2-2/report.html")), HasSubstr("\"strategy\":\"sharded\""));
}

TEST_F(Compare, ASignalSavesAndTheSameCommandGoesOn) {
  write_text(path("train.toml"), config());
  const Words arguments{"compare",  "train.toml", "--strategies",       "single,ddp",
                        "--rounds", "1",          "train.max_steps=300"};
  Process running(pipeline_command(arguments), folder());
  ASSERT_TRUE(eventually([&] { return read_lines(path("run-compare/single/metrics.jsonl")).size() > 3; }));
  running.signal(SIGINT);
  EXPECT_THAT(running.wait().ended(75).out, HasSubstr("the same command goes on from here"));
  const size_t done = read_lines(path("run-compare/single/metrics.jsonl")).size();
  EXPECT_LT(done, 300u);
  EXPECT_EQ(pipeline(arguments).code, 0);
  EXPECT_EQ(read_lines(path("run-compare/single/metrics.jsonl")).size(), 300u);
}

TEST_F(Compare, WrongInputIsNamed) {
  write_text(path("train.toml"), config());
  EXPECT_THAT(compare({"train.toml"}).err, HasSubstr("there is one run to compare"));
  EXPECT_THAT(compare({"none", "train.toml"}).err, HasSubstr("none: there is no such file or folder"));
  EXPECT_THAT(compare({"train.toml", "--stage", "x", "--processes", "1,2"}).err, HasSubstr("has no stages"));
  fs::create_directory(path("other"));
  write_text(path("other/train.toml"), config());
  EXPECT_THAT(compare({"train.toml", "other/train.toml"}).err,
              HasSubstr("train.toml and other/train.toml: two runs would be called train: "));
  const Result failed =
      compare({"train.toml", "--strategies", "single,ddp,unknown", "train.max_steps=2"}).ended(1);
  EXPECT_THAT(failed.out, HasSubstr("unknown: exited with code 2")) << failed.out;
  EXPECT_THAT(failed.out, testing::ContainsRegex("\nunknown  .* FAILED: exited with code 2; see "))
      << failed.out;
  EXPECT_THAT(failed.out, HasSubstr("relative).\nFailed: unknown.\n")) << failed.out;
  EXPECT_THAT(read_text(path("run-compare/compare.html")), HasSubstr("FAILED: exited with code 2"));
  EXPECT_THAT(failed.out, HasSubstr("equal to the bit in 2 steps")) << "the others are compared all the same";
  EXPECT_EQ(call("report").code, 2);
}

}  // namespace
}  // namespace pipeline::tests
