#include "core/report/run_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(RunRecord, LossesOfOtherProgramsAreRead) {
  const tests::FilesFolder folder;
  for (const auto& [name, text] :
       {std::pair("a.jsonl",
                  "{\"_step\": 10, \"train/loss\": 2.5}\n{\"_step\": 20, "
                  "\"train/loss\": 2, \"note\": \"x\"}\n"),
        {"a.csv", "\xef\xbb\xbfiter,\"train_loss\",lr\r\n10,2.5,1e-3\r\n20,2,1e-3\r\n"},
        {"b.csv", "global_step,loss\n10,2.5\n20,2.0\n"}}) {
    const RunRecord run = read_losses(folder.write(name, text), name);
    EXPECT_THAT(run.training.steps, ElementsAre(10, 20)) << name;
    ASSERT_NE(run.training.find("loss"), nullptr) << name;
    EXPECT_THAT(*run.training.find("loss"), ElementsAre(2.5, 2)) << name;
  }
  EXPECT_THAT(
      tests::message_of<Error>([&] { read_losses(folder.write("c.csv", "step,accuracy\n1,2\n"), ""); }),
      HasSubstr("the columns are: accuracy"));
}

}  // namespace
}  // namespace pipeline::report
