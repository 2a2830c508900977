// What is known of a run by its checkpoint.
#include "core/train/session/value_source.hpp"

#include <gtest/gtest.h>

#include "core/checkpoint/manifest.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

class ValuesOfRuns : public testing::Test {
 protected:
  // A run, or a stage of one, that has a checkpoint.
  ValueSource run(const std::string& name, const std::string& options) {
    checkpoint::Manifest manifest;
    manifest.contents.step = 1;
    manifest.contents.config_toml = options;
    const std::string checkpoint = name + "/checkpoints/step-00000001";
    std::filesystem::create_directories(folder_ / checkpoint);
    folder_.write(checkpoint + "/manifest.json", checkpoint::format_manifest(manifest, "test"));
    folder_.write(name + "/config.toml", "started_in = '" + folder_.path() + "'\n");
    return values_of_run({}, folder_ / name);
  }

  tests::FilesFolder folder_;
};

TEST_F(ValuesOfRuns, HaveFollowedWhatTheFirstOneBeganWith) {
  EXPECT_FALSE(has_followed(run("x/first", "[train]\ninit_from = ''\n[stage]\nname = 'first'\n")));
  EXPECT_FALSE(has_followed(run("x/second", "[stage]\nname = 'second'\ninit_from = 'first'\n")));
  EXPECT_FALSE(has_followed(run("x/third", "train.init_from = 'second'\n[stage]\nname = 'third'\n")));
  EXPECT_FALSE(has_followed(run("y", "train.init_from = 'x/third'\n")));
  EXPECT_TRUE(has_followed(run("z", "train.init_from = 'models/gpt2'\n")));
  EXPECT_TRUE(has_followed(run("after", "train.init_from = 'z'\n")));
  EXPECT_TRUE(has_followed(run("parts", "task.language.init_from = 'models/llama'\n")));
  EXPECT_TRUE(has_followed(run("gone", "train.init_from = 'removed'\n")));
}

TEST_F(ValuesOfRuns, OfRunsThatBeganWithEachOtherAreFoundOut) {
  run("a", "train.init_from = 'b'\n");
  EXPECT_TRUE(has_followed(run("b", "train.init_from = 'a'\n")));
}

TEST_F(ValuesOfRuns, NeedNoRunAroundACheckpoint) {
  const std::string whole = run("x", "train.max_steps = 3\n").base;
  std::filesystem::rename(folder_ / "x/checkpoints", folder_ / "x/downloads");
  folder_.write("x/config.toml", "of another program");
  EXPECT_EQ(whole, folder_.path());
  EXPECT_EQ(values_of_run({}, folder_ / "x/downloads").base, "");
}

TEST_F(ValuesOfRuns, AKilledRunGoesOnFromTheCheckpointThatItWasAboutToReplace) {
  run("x", "train.init_from = 'gone'\n");
  std::filesystem::rename(folder_ / "x/checkpoints/step-00000001",
                          folder_ / "x/checkpoints/.old-step-00000001");
  const ValueSource own = values_of_run(folder_ / "x", "gone");
  EXPECT_TRUE(own.goes_on);
  EXPECT_EQ(own.options.at("train.init_from"), "\"gone\"");
}

}  // namespace
}  // namespace pipeline::train
