#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "core/report/comparison.hpp"
#include "core/report/page.hpp"
#include "core/report/run_record.hpp"
#include "tests/report/run_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

Curve losses(const std::vector<uint64_t>& steps, const std::vector<double>& values) {
  return {.steps = steps, .figures = {{"loss", values}}};
}

TEST(LossVerdict, SaysHowFarTwoCurvesAreApart) {
  const Curve reference = losses({1, 2, 3}, {4, 2, 1});
  EXPECT_EQ(describe(compare_losses(reference, reference, 0)), "equal to the bit in 3 steps");
  const double next = std::nextafter(2.0, 3);
  EXPECT_EQ(compare_losses(losses({1, 2, 3}, {4, next, 1}), reference, 0).kind, LossVerdict::Kind::differs);
  EXPECT_EQ(describe(compare_losses(losses({1, 2, 3}, {4, 2.002, 1}), reference, 0.01)),
            "same: within 1.0e-03, first differs at step 2");
  const LossVerdict far = compare_losses(losses({1, 2, 3}, {4.004, 2.5, 2}), reference, 0.01);
  EXPECT_EQ(describe(far), "DIFFERS: by 1.0e+00 at step 3, beyond the tolerance from step 2");
  EXPECT_EQ(far.first, 1u);
  EXPECT_FALSE(far.is_same());
}

TEST(LossVerdict, AlignsBySteps) {
  const Curve reference = losses({1, 2, 3, 4}, {4, 3, 2, 1});
  EXPECT_EQ(compare_losses(losses({2, 4, 9}, {3, 1, 7}), reference, 0).steps, 2u);
  EXPECT_EQ(compare_losses(losses({7, 8}, {1, 1}), reference, 1).kind, LossVerdict::Kind::nothing_in_common);
  EXPECT_FALSE(compare_losses({}, reference, 1).is_same());
}

TEST(LossVerdict, WhatIsNoNumberIsSameOnlyAsThat) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(compare_losses(losses({1}, {kNan}), losses({1}, {kNan}), 0).kind, LossVerdict::Kind::equal);
  EXPECT_FALSE(compare_losses(losses({1}, {kNan}), losses({1}, {1}), 1e9).is_same());
  EXPECT_FALSE(compare_losses(losses({1}, {1}), losses({1}, {kNan}), 1e9).is_same());
  EXPECT_FALSE(compare_losses(losses({1}, {1}), losses({1}, {0}), 1e9).is_same());
}

TEST(LossVerdict, SaysWhereALossIsNoNumber) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInfinite = std::numeric_limits<double>::infinity();
  const Curve diverges = losses({1, 2, 3, 4}, {4, kInfinite, kNan, kNan});
  EXPECT_EQ(describe(compare_losses(losses({1, 2, 3, 4}, {4, 3, 2, 1}), diverges, 1e9)),
            "DIFFERS: 3 against inf at step 2, beyond the tolerance from step 2");
  EXPECT_EQ(describe(compare_losses(diverges, diverges, 0)),
            "equal to the bit in 4 steps; in 3 of them both are not finite, first at step 2");
  EXPECT_EQ(describe(compare_losses(losses({1, 2, 3, 4}, {4, kNan, kNan, kNan}), diverges, 0)),
            "DIFFERS: nan against inf at step 2, beyond the tolerance from step 2");
}

TEST(Comparison, SaysWhatRunsCostAndHowTheyDiffer) {
  const std::string common = "[run]\ndir = \"x\"\n[train]\nglobal_batch = 8\n";
  const Comparison comparison = compare(
      {tests::record_of("single", {2, 1}, 1, 1, common + "[strategy]\nplugin = \"single\"\n"),
       tests::record_of("ddp", {2, 1}, 0.625, 2, common + "[strategy]\nplugin = \"ddp\"\noverlap = true\n"),
       tests::record_of("other", {2, 1}, 1, 1, "[run]\ndir = \"y\"\n[train]\nglobal_batch = 9\n")},
      0);
  EXPECT_TRUE(comparison.all_same());
  EXPECT_DOUBLE_EQ(comparison.efficiency(1).value(), 0.8);
  const auto differences = comparison.differences();
  ASSERT_EQ(differences.size(), 2u) << "not run.dir, nor what only one plugin has";
  EXPECT_EQ(differences[0].key, "strategy.plugin");
  EXPECT_EQ(differences[1].key, "train.global_batch");
  EXPECT_THAT(differences[1].values, ElementsAre("8", "8", "9"));
  const std::string text = table(comparison);
  EXPECT_THAT(
      text,
      HasSubstr(
          "ddp     2      1                160         1.60x  80%         5.0 MB         equal to the bit"));
  EXPECT_THAT(text, HasSubstr("compute 75%, data 25%\n"));
  EXPECT_THAT(text, HasSubstr("compute 75%, data 25%; rank 1 works 20% longer than the mean\n"));
  EXPECT_THAT(text, HasSubstr("The losses are the same (tolerance 0, relative)."));
}

TEST(Comparison, DevicesThatNvmlKnowsAreSummedUp) {
  RunRecord run = tests::record_of("a", {2, 1}, 1, 2);
  EXPECT_EQ(run.device_use(), std::nullopt);
  for (auto& rank : run.summary["ranks"])
    rank.update({{"device_utilisation", 0.9}, {"driver_memory", 5'000'000'000}});
  EXPECT_THAT(table(compare({run}, 0)), HasSubstr("mean; devices busy 90%, 5.0 GB of memory in use\n"));
  run.summary["ranks"][1]["device_utilisation"] = 0.7;
  EXPECT_THAT(table(compare({run}, 0)),
              HasSubstr("; devices busy 80%, that of rank 1 70%, 5.0 GB of memory"));
}

TEST(Comparison, OneThatDiffersDecides) {
  const Comparison comparison = compare(
      {tests::record_of("a", {2, 1}), tests::record_of("b", {2, 1}), tests::record_of("c", {2, 1.5})}, 1e-3);
  EXPECT_FALSE(comparison.all_same());
  EXPECT_THAT(table(comparison), HasSubstr("The losses are NOT the same"));
}

TEST(Comparison, RunsThatFailedOrWereNotMadeAreRowsAfterTheOthers) {
  RunRecord failed = tests::record_of("failed", {2, 1}), not_run = tests::record_of("not", {});
  failed.made = RunRecord::Made::failed;
  failed.why_not = "exited with code 2";
  not_run.made = RunRecord::Made::no;
  not_run.why_not = "it is for one";
  const Comparison comparison =
      compare({not_run, failed, tests::record_of("a", {2, 1}), tests::record_of("b", {2, 1})}, 0);
  EXPECT_FALSE(comparison.all_same()) << "one failed";
  const std::string text = table(comparison);
  EXPECT_THAT(text, testing::ContainsRegex("\na +2 .* the reference\nb +2 .* equal to the bit in 2 steps\n"
                                           "failed +2 .* FAILED: exited with code 2; until then equal to the "
                                           "bit in 2 steps\nnot  .* not run: it is for one\n"));
  EXPECT_THAT(text, testing::EndsWith("\nThe losses of the runs that did not fail are the same (tolerance 0, "
                                      "relative).\nFailed: failed.\n"));
  EXPECT_TRUE(compare({not_run, tests::record_of("a", {2}), tests::record_of("b", {2})}, 0).all_same());
  EXPECT_THAT(table(compare({failed, tests::record_of("a", {2, 1})}, 0)),
              HasSubstr("\nNOT COMPARED: there are no two runs with losses.\nFailed: failed.\n"));
  const auto data = page_data(comparison, "", true);
  EXPECT_EQ(data["runs"][2]["verdict"], "FAILED: exited with code 2; until then equal to the bit in 2 steps");
  EXPECT_EQ(data["runs"][3]["same"], true);
  EXPECT_EQ(data["same"], false);
  EXPECT_EQ(data["runs"][0]["last_loss"], 1);
  const RunRecord diverged = tests::record_of("d", {2, NAN});
  EXPECT_EQ(page_data(compare({diverged}, 0), "", false)["runs"][0]["last_loss"], "nan");
}

class States : public testing::Test {
 protected:
  fs::path run(const std::string& name) {
    fs::create_directories(folder_ / (name + "/logs"));
    folder_.write(name + "/.lock", std::to_string(::getpid()) + "\n");
    return folder_ / name;
  }
  void steps(const std::string& name, int count) {
    std::string lines;
    for (int i = 1; i <= count; ++i)
      lines += R"({"step":)" + std::to_string(i) +
               R"(,"loss":0.5})"
               "\n";
    folder_.write(name + "/metrics.jsonl", lines);
  }

  tests::FilesFolder folder_;
};

TEST_F(States, SayWhatBecameOfARun) {
  const fs::path folder = run("a");
  EXPECT_EQ(state_of(folder), RunState::begun);
  steps("a", 7);
  EXPECT_EQ(state_of(folder), RunState::cut_off);
  folder_.write("a/summary.json", R"({"steps": 5})");
  EXPECT_EQ(state_of(folder), RunState::cut_off) << "it went on after it was stopped at step 5";
  folder_.write("a/summary.json", R"({"steps": 7})");
  EXPECT_EQ(state_of(folder), RunState::stopped);
  folder_.write("a/diverged.txt", "");
  EXPECT_EQ(state_of(folder), RunState::diverged);
  folder_.write("a/finished.txt", "");
  EXPECT_EQ(state_of(folder), RunState::finished);

  const int held = ::open((folder / ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(state_of(folder), RunState::running);
  ::close(held);
  EXPECT_EQ(state_of(folder), RunState::finished);
}

TEST_F(States, OfAllRunsAreListed) {
  run("one");
  steps("one", 2);
  fs::create_directories(folder_ / "one/checkpoints/step-00000001");
  fs::create_directories(folder_ / "one/checkpoints/step-00000002");
  run("group/two");
  run("group/two/pretrain");
  steps("group/two/pretrain", 1);
  fs::create_directories(folder_ / "none");
  const auto runs = find_runs(folder_.path());
  EXPECT_THAT(runs, ElementsAre(folder_ / "group/two/pretrain", folder_ / "one"));
  const std::string text = list_runs(runs).table;
  EXPECT_THAT(text, HasSubstr("cut off  2     0.5000                    step-00000002  0:0"));
  EXPECT_TRUE(find_runs(folder_ / "none").empty());
  EXPECT_THAT(tests::message_of<Error>([&] { find_runs(folder_ / "x"); }),
              HasSubstr("there is no such folder"));
}

TEST_F(States, OneThatCannotBeReadDoesNotHideTheOthers) {
  run("a\x1b[2Jb\nc");
  steps("a\x1b[2Jb\nc", 2);
  run("damaged");
  folder_.write("damaged/metrics.jsonl", "no JSON\n");
  run("pipe");
  ASSERT_EQ(::mkfifo((folder_ / "pipe/metrics.jsonl").c_str(), 0600), 0);
  fs::create_symlink("loop", folder_ / "loop");
  const RunList list = list_runs(find_runs(folder_.path()));
  EXPECT_THAT(list.table, HasSubstr("/a\\x1b[2Jb\\x0ac  cut off     2     0.5000"));
  EXPECT_THAT(list.table, HasSubstr("/damaged         unreadable\n"));
  EXPECT_THAT(list.problems, ElementsAre(folder_ / "damaged/metrics.jsonl:1: not valid JSON at byte 2",
                                         folder_ / "pipe/metrics.jsonl: is a FIFO, must be a file"));
}

// What `ls` takes does not grow with a run, and it does not see damage that lies further back.
TEST_F(States, TheLastStepsAreEnough) {
  run("long");
  std::string lines = "damaged\n";
  for (int step = 1; step <= 100'000; ++step)
    lines += fmt::format("{{\"step\":{},\"loss\":{},\"seconds\":{},\"samples\":8}}\n", step, 1e5 - step,
                         step > 99'900 ? 2 : 1);
  folder_.write("long/metrics.jsonl", lines);
  const Curve end = read_last_steps(folder_ / "long/metrics.jsonl");
  EXPECT_EQ(end.steps.back(), 100'000);
  EXPECT_LT(end.steps.size(), 100);
  EXPECT_THAT(list_runs({folder_ / "long"}).table, HasSubstr("cut off  100000  0.0000        4 "));
  folder_.write("long/metrics.jsonl", lines + "more damage\n" + lines.substr(lines.size() - 60));
  EXPECT_THAT(list_runs({folder_ / "long"}).problems,
              ElementsAre(HasSubstr("metrics.jsonl:1: not valid JSON")));
}

// A line may be longer than the part of the file that is read first.
TEST_F(States, ALongLineIsReadWhole) {
  run("a");
  const std::string more = fmt::format(",\"text\":\"{}\"}}\n", std::string(5000, 'x'));
  folder_.write("a/metrics.jsonl", "{\"step\":1,\"loss\":2" + more + "{\"step\":2,\"loss\":1.5" + more);
  EXPECT_THAT(list_runs({folder_ / "a"}).table, testing::ContainsRegex("cut off +2 +1.5000 "));
}

TEST_F(States, TheBestEvaluationIsShownAndSortedBy) {
  for (const auto& [name, value, better] : {std::tuple("run-9", 2.0, "lower"), {"run-10", 1.5, "lower"}}) {
    run(name);
    steps(name, 2);
    folder_.write(
        fmt::format("{}/summary.json", name),
        fmt::format(R"({{"best":{{"metric":"loss","value":{},"step":1,"better":"{}"}}}})", value, better));
  }
  run("run-11");
  fs::create_directories(folder_ / "run-10/checkpoints/step-00000001");
  const auto runs = find_runs(folder_.path());
  EXPECT_THAT(runs, ElementsAre(folder_ / "run-9", folder_ / "run-10", folder_ / "run-11"));
  EXPECT_THAT(list_runs(runs).table, testing::ContainsRegex("run-9 .* loss 2.0000 at step 1 .*\n"
                                                            ".*run-10 .* loss 1.5000 .step-00000001. "));
  EXPECT_THAT(list_runs(runs, /*best_first=*/true).table,
              testing::ContainsRegex("run-10 .*\n.*run-9 .*\n.*run-11 "));
  folder_.write("run-9/summary.json", R"({"best":{"metric":"loss"}})");
  EXPECT_THAT(list_runs(runs).problems,
              ElementsAre(HasSubstr("run-9/summary.json: is not as a run writes it")));
}

TEST(RunNames, AreSortedByTheirNumbers) {
  const std::vector<fs::path> sorted{"a", "a-02", "a-2", "a-10/b", "a-10/c-1", "a-10/c-12", "b", "b0", "b1"};
  std::vector<fs::path> names(sorted.rbegin(), sorted.rend());
  std::ranges::sort(names, comes_before);
  EXPECT_EQ(names, sorted);
}

TEST_F(States, ALossThatIsNoNumberIsShown) {
  run("a");
  folder_.write("a/metrics.jsonl",
                "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":\"NaN\"}\n{\"step\":3,\"lo");
  EXPECT_THAT(list_runs({folder_ / "a"}).table, testing::ContainsRegex("cut off +2 +nan "));
}

}  // namespace
}  // namespace pipeline::report
