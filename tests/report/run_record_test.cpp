#include <sys/stat.h>

#include <cmath>

#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "core/report/page.hpp"
#include "core/report/run_record.hpp"
#include "core/report/table.hpp"
#include "tests/report/run_folder.hpp"
#include "tests/support/test_files.hpp"

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
  ASSERT_EQ(panels.size(), 14u);
  EXPECT_EQ(panels[0]["title"], "run: submission.csv");
  EXPECT_EQ(panels[1]["title"], "run: a.svg");
  EXPECT_EQ(panels[1]["content"], "data:image/svg+xml;base64,PHN2Zy8+");
  EXPECT_EQ(panels[12]["title"], "run: l.svg");
  EXPECT_EQ(panels[13]["title"], "run: 3 more pictures");
}

TEST(Panels, ShowTheAnswersOfTheLastEvaluationAndTheOptions) {
  const tests::FilesFolder folder;
  folder.write("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  folder.write("config.toml", "[train]\nmax_steps = 7\n");
  folder.write("train.log",
               "2026-11-30 11:39:40.977 info evaluation after step 10:  loss 3\n"
               "2026-11-30 11:39:40.977 info   1: old\n"
               "2026-11-30 11:39:40.977 info evaluation after step 20:  loss 2\n"
               "2026-11-30 11:39:40.977 info   1: new\n    real:    x\n"
               "2026-11-30 11:39:40.991 info saved it\n    more\n");
  const auto panels = panels_of(read_run(folder.path(), "run"));
  ASSERT_EQ(panels.size(), 2u);
  EXPECT_EQ(panels[0]["title"], "run: shown at the evaluation after step 20");
  EXPECT_EQ(panels[0]["content"], "  1: new\n    real:    x\n");
  EXPECT_EQ(panels[1]["rows"].dump(), R"([["option","value"],["train.max_steps","7"]])");
}

TEST(Pages, OpenWithTheBestEvaluation) {
  const tests::FilesFolder folder;
  folder.write("metrics.jsonl", "{\"step\":1,\"loss\":4}\n{\"step\":2,\"loss\":3}\n");
  folder.write("eval.jsonl", "{\"step\":1,\"loss\":2,\"f1\":0.5}\n{\"step\":2,\"loss\":5,\"f1\":0.1}\n");
  folder.write("summary.json",
               R"({"task":"chat 1.0.0","best":{"metric":"loss","value":2,"step":1,"better":"lower"}})");
  const auto rows = page_data(read_stages(folder.path()), "", false)["overview"];
  const auto of = [&](const std::string& head) {
    for (const auto& row : rows)
      if (row[0] == head) return row[1].get<std::string>();
    return std::string();
  };
  EXPECT_EQ(of("state"), "cut off at step 2");
  EXPECT_EQ(of("last training loss"), "3");
  EXPECT_EQ(of("best evaluation"), "loss 2 after step 1, whose checkpoint is not kept");
  EXPECT_EQ(of("all of its figures"), "f1 0.5, loss 2");
  EXPECT_EQ(of("task"), "chat 1.0.0");
}

// As `predict` and `evaluate` leave them of a model that was not trained here.
TEST(Pages, OfAFolderThatHasResultsAlone) {
  const tests::FilesFolder folder;
  folder.write("submission.csv", "id,answer\n1,yes\n");
  folder.write("evaluation-test.json", R"({"figures":{"f1":0.5}})");
  const auto data = page_data(read_stages(folder.path()), "", false);
  ASSERT_EQ(data["panels"].size(), 2u);
  EXPECT_EQ(data["panels"][1]["rows"][1][1], "yes");
  EXPECT_EQ(data["verdict"], "");
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

class LossFiles : public testing::Test {
 protected:
  LossFile read(const std::string& text) const { return read_losses(folder_.write("x", text), "x"); }
  // What is wrong with this text, without the file's folder.
  std::string problem_with(const std::string& text) const {
    return tests::message_of<Error>([&] { read(text); }).substr((folder_ / "").size());
  }

  tests::FilesFolder folder_;
};

TEST_F(LossFiles, OfOtherProgramsAreRead) {
  for (const std::string text :
       {"{\"_step\": 10, \"train/loss\": 2.5}\n{\"_step\": 20, \"train/loss\": 2, \"note\": \"x\"}\n",
        "\xef\xbb\xbfiter,\"train_loss\",lr\r\n10,2.5,1e-3\r\n20,2,1e-3\r\n",
        "global_step,loss\n20, 2.0\n10.0,+2.5\n"}) {
    const RunRecord run = read(text).run;
    EXPECT_THAT(run.training.steps, ElementsAre(10, 20)) << text;
    ASSERT_NE(run.training.find("loss"), nullptr) << text;
    EXPECT_THAT(*run.training.find("loss"), ElementsAre(2.5, 2)) << text;
  }
}

TEST_F(LossFiles, WhatIsNotFiniteIsAStepLikeAnyOther) {
  for (const std::string text :
       {"{\"step\": 1, \"loss\": NaN}\n{\"step\": 2, \"loss\": -Infinity}\n{\"step\": 3, \"loss\": null}\n",
        "step,loss\n1,nan\n2,-inf\n3,\n"}) {
    const Curve curve = read(text).run.training;
    EXPECT_THAT(curve.steps, ElementsAre(1, 2, 3)) << text;
    EXPECT_TRUE(std::isnan(curve.find("loss")->at(0)));
    EXPECT_EQ(curve.find("loss")->at(1), -INFINITY);
    EXPECT_TRUE(std::isnan(curve.find("loss")->at(2)));
  }
}

TEST_F(LossFiles, WhatIsChosenAndLeftOutIsSaid) {
  EXPECT_EQ(
      read("step,_step,train_loss,loss\n1,1,5,4\n").how_read,
      folder_ / "x: the step is step (there is _step, too), the loss is loss (there is train_loss, too)");
  EXPECT_EQ(
      read("step,loss,val_loss\n1,4,\n1,,3\n").how_read,
      folder_ / "x: the step is step, the loss is loss; 1 line without a loss left out, the first is line 3")
      << "its step has a loss in another line";
  const LossFile mixed = read(
      "{\"step\": 1, \"loss\": 2}\n{\"step\": 1, \"eval_loss\": 3}\n{\"eval_loss\": 3}\n{\"step\": 2, \"lo");
  EXPECT_EQ(mixed.how_read, folder_ /
                                "x: the step is step, the loss is loss; 2 lines without a loss left out, the "
                                "first is line 2; line 4 is cut short and left out");
  EXPECT_THAT(mixed.run.training.steps, ElementsAre(1));
}

TEST_F(LossFiles, WhatCannotBeReadIsNamed) {
  const std::string whole = ": must be a whole number, 0 or more";
  EXPECT_EQ(problem_with("step,loss\n1,2\n2,3,4\n"), "x:3: cells: 3, and the header has 2");
  EXPECT_EQ(problem_with("step,loss\n1.5,2\n"), "x:2: step = 1.5" + whole);
  EXPECT_EQ(problem_with("step,loss\n-1,2\n"), "x:2: step = -1.0" + whole);
  EXPECT_EQ(problem_with("step,loss\n,2\n"), "x:2: step = null" + whole);
  EXPECT_EQ(problem_with("{\"step\": 1e300, \"loss\": 2}\n"), "x:1: step = 1e+300" + whole);
  EXPECT_EQ(problem_with("{\"loss\": 2}\n{\"step\": 1}\n"), "x:1: has no step");
  EXPECT_EQ(problem_with("step,loss\n1,\"2,5\"\n"), "x:2: loss = \"2,5\": must be a number");
  EXPECT_EQ(problem_with("step,loss\n1,2\n2,1\n1,3\n"),
            "x:4: step = 1: stands in line 2, too: keep the one that counts");
  EXPECT_EQ(problem_with("step,loss,loss\n1,2,3\n"), "x:1: the column loss stands there twice");
  EXPECT_THAT(problem_with("step,accuracy\n1,2\n"), HasSubstr("the columns are: step, accuracy"));
  EXPECT_THAT(problem_with("loss\n2\n"), HasSubstr("has no loss by step"))
      << "lines are not numbered unasked";
  EXPECT_THAT(problem_with(""), HasSubstr("the columns are: none"));
}

TEST(Csv, HasAColumnForEveryFigureAlsoForALateOne) {
  const tests::FilesFolder folder;
  const std::string lines = folder.write("metrics.jsonl",
                                         "{\"step\":1,\"loss\":0.1,\"mfu\":null}\n"
                                         "{\"step\":2,\"loss\":1e-09,\"skipped\":true,\"a,\\\"b\\\"\":3}\n"
                                         "{\"step\":3,\"lo");  // what a kill leaves
  EXPECT_EQ(csv_of(lines),
            "step,loss,mfu,skipped,\"a,\"\"b\"\"\"\n"
            "1,0.1,,,\n"
            "2,1e-09,,true,3\n");
}

TEST(Csv, SaysWhatIsNotFiniteAndNamesWhatCannotBeRead) {
  const tests::FilesFolder folder;
  EXPECT_EQ(
      csv_of(folder.write("a.jsonl", "{\"step\":1,\"loss\":\"NaN\"}\n{\"step\":2,\"loss\":-Infinity}\n")),
      "step,loss\n1,NaN\n2,-Infinity\n");
  const std::string file = folder.write("b.jsonl", "{\"step\":1}\nx\n{\"step\":2}\n");
  EXPECT_EQ(tests::message_of<Error>([&] { csv_of(file); }), file + ":2: not valid JSON at byte 1");
}

TEST(Csv, OfNothingIsNothing) {
  const tests::FilesFolder folder;
  EXPECT_EQ(csv_of(folder.write("eval.jsonl", "")), "");
}

}  // namespace
}  // namespace pipeline::report
