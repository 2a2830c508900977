// What is wrong with a pool shows in the configuration alone.
#include "core/train/stages/pool_stage.hpp"

#include <gmock/gmock.h>

#include "core/train/stages/other_options.hpp"
#include "core/train/stages/stages.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

constexpr const char* kTask = "task.plugin = 'zoo'\n";
constexpr const char* kLearn = "[[stage]]\nname = 'learn'\n";
constexpr const char* kTest = "[[stage]]\nname = 'test'\nkind = 'evaluate'\ninit_from = 'learn'\n";
constexpr const char* kAgain = "[[stage]]\nname = 'again'\nkind = 'evaluate'\ninit_from = 'learn'\n";
constexpr const char* kAll = "[[stage]]\nname = 'all'\nkind = 'pool'\n";

// What is wrong with a configuration, without its folder.
std::string problem_of(const std::string& text, const std::string& stage = "") {
  const tests::FilesFolder folder;
  const std::string file = folder.write("x.toml", kTask + text);
  const std::string problem = tests::message_of<config::ConfigError>(
      [&] { check_stages(config::load({.file = file, .sets = {}, .stage = stage})); });
  const size_t at = problem.find(file);
  return at == problem.npos ? problem : problem.substr(0, at) + problem.substr(at + folder.path().size() + 1);
}

// Options that differ between an evaluation with `before` and one with `now`.
std::vector<std::string> other(const std::string& before, const std::string& now) {
  const tests::FilesFolder folder;
  const auto load = [&](const std::string& text) {
    return config::load({.file = folder.write("x.toml", kTask + text), .sets = {}, .stage = {}});
  };
  const std::string stored = load(before).to_toml(true);
  return other_options("\n" + stored, load(now), {});
}

TEST(PoolStage, TakesACopyOfARunForWhatItIs) {
  using testing::IsEmpty;
  EXPECT_THAT(other("run.dir = 'cv'\n", "\n\nrun.dir = 'cv2' # further below\n"), IsEmpty());
  EXPECT_THAT(other("run.name = 'cv'\n", "run.dir = 'cv2'\n"), IsEmpty());
  EXPECT_THAT(other("run.dir = 'cv'\ntask.file = 'cv/a'\ntask.files = ['cv/a', 'cv/b']\n",
                    "run.dir = 'cv2'\ntask.file = 'cv2/a'\ntask.files = ['cv2/a', 'cv2/b']\n"),
              IsEmpty());
}

TEST(PoolStage, IsNotMadeAnewForWhatTrainingAloneReads) {
  EXPECT_THAT(
      other("optimizer.lr = 1\ntrain.max_steps = 5\ncheckpoint.keep = 2\n",
            "optimizer.lr = 2\nschedule.kind = 'constant'\ntrain.clip_grad_norm = 3\nobserve.wandb = true\n"),
      testing::IsEmpty());
  EXPECT_THAT(other("", "train.precision = 'bf16'\nevaluate.max_samples = 2\n"), testing::SizeIs(2));
}

TEST(PoolStage, NamesTheOptionsThatAreOthers) {
  using testing::ElementsAre;
  EXPECT_THAT(other("run.dir = 'cv'\nevaluate.split = 'val'\n",
                    "run.dir = 'cv2'\nevaluate.split = 'test'\ntask.rate = 3\n"),
              ElementsAre("evaluate.split was \"val\" and is \"test\"", "task.rate was not set and is 3"));
  EXPECT_THAT(other("run.dir = 'cv'\ntask.file = 'cv/a'\n", "run.dir = 'cv2'\ntask.file = 'cv2/b'\n"),
              ElementsAre("task.file was \"cv/a\" and is \"cv2/b\""));
  EXPECT_THAT(other_options("weights = cv/a (manifest 1)",
                            config::load({.file = {}, .sets = {"task.plugin=zoo"}, .stage = {}}), {}),
              ElementsAre("its stored options cannot be read"));
}

TEST(PoolStage, OfEvaluationsIsInOrderAlsoWhenItIsPickedAlone) {
  const std::string stages = std::string(kLearn) + kTest + kAgain + kAll;
  EXPECT_EQ(problem_of(stages), "(nothing was thrown)");
  EXPECT_EQ(problem_of(stages, "all"), "(nothing was thrown)");
  EXPECT_EQ(problem_of(""), "(nothing was thrown)");
}

TEST(PoolStage, NeedsEvaluationsBeforeIt) {
  const std::string problem =
      ": stage.kind = \"pool\": no stage before this one evaluates, so there is nothing to pool";
  EXPECT_EQ(problem_of(kAll), "x.toml:4" + problem);
  EXPECT_EQ(problem_of(std::string(kLearn) + kAll + kTest), "x.toml:6" + problem);
  EXPECT_EQ(problem_of(std::string(kLearn) + kAll + kTest, "all"), "x.toml:6" + problem);
  EXPECT_EQ(problem_of(std::string(kLearn) + kAll + kTest, "test"), "(nothing was thrown)")
      << "that stage is not asked for";
}

// What is said of two stages that are added up, `here` and `there`.
std::string differ(const std::string& here, const std::string& there, const std::string& value) {
  return ": is of the stage '" + here + "', but '" + there + "' has " + value +
         ": the stage 'all' pools both, so they must be the same";
}

TEST(PoolStage, NeedsEvaluationsOfOneSplit) {
  const std::string split = "evaluate.split = 'val'\n";
  EXPECT_EQ(problem_of(std::string(kLearn) + kTest + kAgain + split + kAll),
            "x.toml:12: evaluate.split = \"val\"" + differ("again", "test", "\"test\""));
  EXPECT_EQ(problem_of(std::string(kLearn) + kTest + split + kAgain + kAll),
            "x.toml:8: evaluate.split = \"val\"" + differ("test", "again", "\"test\""));
}

TEST(PoolStage, NeedsTheTaskOfItsEvaluations) {
  EXPECT_EQ(problem_of(std::string(kLearn) + kTest + kAll + "task.plugin = 'other'\n"),
            "x.toml:11: task.plugin = \"other\"" + differ("all", "test", "\"zoo\""));
}

TEST(PoolStage, NeedsWholeEvaluations) {
  const std::string problem =
      ": evaluate.max_samples = 9: may cut the stage 'test' short, but the stage 'all' pools whole "
      "evaluations: set it to 0 for 'test' (in [stage.evaluate])";
  EXPECT_EQ(problem_of("evaluate.max_samples = 9\n" + std::string(kLearn) + kTest + kAll),
            "x.toml:2" + problem);
  EXPECT_EQ(problem_of("evaluate.max_samples = 9\n" + std::string(kLearn) + kTest +
                       "evaluate.max_samples = 0\n" + kAll),
            "(nothing was thrown)");
}

TEST(PoolStage, TakesNoWeights) {
  EXPECT_EQ(problem_of(std::string(kLearn) + kTest + kAll + "init_from = 'learn'\n"),
            "x.toml:11: stage.init_from = \"learn\": has no effect in a pool stage, which uses no weights: "
            "leave it out");
}

}  // namespace
}  // namespace pipeline::train
