#include "core/report/run_record.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>

#include "core/base/error.hpp"
#include "core/report/panels.hpp"
#include "tests/report/run_folder.hpp"

namespace pipeline::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RunRecord, IsReadFromARunsFolder) {
  const RunRecord run = tests::record_of("a", {3, 2.5, 2.25}, 0.5, 2, "[train]\nglobal_batch = 8\n");
  EXPECT_EQ(run.last_step(), 3u);
  EXPECT_THAT(*run.training.find("loss"), ElementsAre(3, 2.5, 2.25));
  EXPECT_EQ(run.training.find("nothing"), nullptr);
  EXPECT_TRUE(run.finished);
  EXPECT_EQ(run.throughput(), 200);
  EXPECT_EQ(run.peak_host_memory(), 5'000'000u);
  EXPECT_EQ(run.processes(), 2u);
  EXPECT_EQ(run.options.at("train.global_batch"), "8");
}

TEST(Panels, ShowWhatWasChangedOnTheWay) {
  const tests::FilesFolder folder;
  folder.write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  EXPECT_TRUE(panels_of(read_run(folder.path(), "a")).empty());
  folder.write("changes.json", R"([{"step": 40, "key": "optimizer.lr", "before": "0.1", "now": "0.01"}])");
  const auto panels = panels_of(read_run(folder.path(), "a"));
  ASSERT_EQ(panels.size(), 1u);
  EXPECT_EQ(panels[0]["title"], "a: changed on the way");
  EXPECT_EQ(panels[0]["rows"].dump(),
            R"([["after step","option","before","now"],["40","optimizer.lr","0.1","0.01"]])");
}

TEST(Panels, ShowTheFirstPicturesOfPredictions) {
  const tests::FilesFolder folder;
  folder.write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  folder.write("submission.csv", "id,residues\n");
  std::filesystem::create_directories(folder / "submission-files");
  for (char name = 'a'; name < 'a' + 15; ++name) {
    folder.write(std::string("submission-files/") + name + ".svg", "<svg/>");
    folder.write(std::string("submission-files/") + name + ".csv", "x\n1\n");
  }
  const auto panels = panels_of(read_run(folder.path(), "run"));
  ASSERT_EQ(panels.size(), 13u);
  EXPECT_EQ(panels[0]["title"], "run: a.svg");
  EXPECT_EQ(panels[0]["content"], "data:image/svg+xml;base64,PHN2Zy8+");
  EXPECT_EQ(panels[11]["title"], "run: l.svg");
  EXPECT_EQ(panels[12]["title"], "run: 3 more pictures");
}

TEST(RunRecord, TheMedianIsTheThroughput) {
  const tests::FilesFolder folder;
  folder.write("metrics.jsonl",
               "{\"step\":1,\"samples\":10,\"tokens\":0,\"seconds\":100}\n"
               "{\"step\":2,\"samples\":10,\"tokens\":0,\"seconds\":1}\n"
               "{\"step\":3,\"samples\":10,\"tokens\":0,\"seconds\":1}\n");
  EXPECT_EQ(read_run(folder.path(), "").throughput(), 10) << "samples where there are no tokens";
}

TEST(RunRecord, WhatIsMissingIsNoNumber) {
  const tests::FilesFolder folder;
  folder.write("metrics.jsonl",
               "{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":null,\"late\":7}\n{\"step\":3,\"los");
  const RunRecord run = read_run(folder.path(), "");
  EXPECT_EQ(run.last_step(), 2u) << "a line that a kill cut short does not count";
  EXPECT_FALSE(run.finished);
  EXPECT_TRUE(std::isnan(run.training.find("loss")->at(1)));
  EXPECT_TRUE(std::isnan(run.training.find("late")->at(0)));
  EXPECT_EQ(run.training.find("late")->at(1), 7);
  EXPECT_EQ(run.processes(), 0u);
  EXPECT_EQ(run.throughput(), 0);
}

TEST(RunRecord, FoldersOfStagesAreFound) {
  const tests::FilesFolder folder;
  for (const char* stage : {"sft", "pretrain"}) {
    std::filesystem::create_directories(folder / stage);
    folder.write(std::string(stage) + "/metrics.jsonl", "{\"step\":1}\n");
    folder.write(std::string(stage) + "/config.toml", "");
  }
  const auto now = std::filesystem::last_write_time(folder / "sft/config.toml");
  std::filesystem::last_write_time(folder / "pretrain/config.toml", now - std::chrono::seconds(9));
  EXPECT_THAT(run_folders(folder.path()), ElementsAre(folder / "pretrain", folder / "sft"));
  EXPECT_THAT(run_folders(folder / "sft"), ElementsAre(folder / "sft"));
  EXPECT_THAT(tests::message_of<Error>([&] { run_folders(folder / "none"); }),
              HasSubstr("there is no such file"));
}

// What is wrong with a run that has this file; "" where it is read.
std::string problem_with(const std::string& file, const std::string& text) {
  const tests::FilesFolder folder;
  folder.write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  folder.write(file, text);
  try {
    read_run(folder.path(), "");
  } catch (const Error& error) {
    const std::string what = error.what();
    return what.starts_with(folder.path()) ? what.substr(folder.path().size() + 1) : "no file: " + what;
  }
  return "";
}

TEST(RunRecord, IsReadRightOrItsFileAndLineAreNamed) {
  const tests::FilesFolder folder;
  folder.write("metrics.jsonl",
               "\xef\xbb\xbf{\"step\":2,\"loss\":NaN}\r\n\r\n{\"step\":1.0,\"loss\":\"Infinity\"}\r\n");
  const Curve curve = read_run(folder.path(), "").training;
  EXPECT_THAT(curve.steps, ElementsAre(1, 2)) << "steps out of order";
  EXPECT_TRUE(std::isinf(curve.find("loss")->at(0)));
  EXPECT_TRUE(std::isnan(curve.find("loss")->at(1)));

  const std::string line = "{\"step\":5,\"loss\":1}\n", whole = ": must be a whole number, 0 or more";
  EXPECT_EQ(problem_with("metrics.jsonl", line + "{\"step\":6,\n" + line),
            "metrics.jsonl:2: not valid JSON at byte 11");
  EXPECT_EQ(problem_with("metrics.jsonl", line + "{\"step\":6}\n" + line),
            "metrics.jsonl:3: step = 5: stands in line 1, too: keep the one that counts");
  EXPECT_EQ(problem_with("metrics.jsonl", "{\"loss\":1}\n"), "metrics.jsonl:1: has no step");
  EXPECT_EQ(problem_with("metrics.jsonl", "{\"step\":\"x\"}\n"), "metrics.jsonl:1: step = \"x\"" + whole);
  EXPECT_EQ(problem_with("metrics.jsonl", "{\"step\":-1}\n"), "metrics.jsonl:1: step = -1" + whole);
  EXPECT_EQ(problem_with("metrics.jsonl", "{\"step\":1,\"loss\":\"low\"}\n"),
            "metrics.jsonl:1: loss = \"low\": must be a number");
  EXPECT_EQ(problem_with("eval.jsonl", "[]\n"), "eval.jsonl:1: is no JSON object");
  EXPECT_EQ(
      problem_with("summary.json", "{\"ranks\": [{\"seconds\": [1]}]}"),
      "summary.json: is not as a run writes it: move it away, the rest of the run can be read without it");
  EXPECT_EQ(problem_with("summary.json", "[1]"), "summary.json: is no JSON object");
  EXPECT_THAT(problem_with("config.toml", "a = \xff\x00"), testing::StartsWith("config.toml:1"));
}

TEST(RunRecord, WhatIsNoFileIsNamedAndNotWaitedFor) {
  const tests::FilesFolder folder;
  ASSERT_EQ(::mkfifo((folder / "metrics.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(tests::message_of<Error>([&] { read_run(folder.path(), ""); }),
            folder / "metrics.jsonl: is a FIFO, must be a file");
}

}  // namespace
}  // namespace pipeline::report
