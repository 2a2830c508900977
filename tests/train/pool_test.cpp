// Adding up what evaluations have kept.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "core/train/stages/inference.hpp"
#include "core/train/stages/stages.hpp"
#include "tests/plugins/zoo.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const plugins::Metric kPerplexity{.name = "perplexity",
                                  .source = "loss",
                                  .help = {},
                                  .aggregate = PL_AGGREGATE_EXP_MEAN,
                                  .better = PL_BETTER_LOWER};

KeptEvaluation kept(const std::string& stage, std::vector<plugins::EvaluationValue> values) {
  return {.stage = stage,
          .figures = "run/" + stage + "/evaluation-test.json",
          .sums = {.split = PL_SPLIT_TEST,
                   .sums = std::move(values),
                   .metrics = {kPerplexity},
                   .records = 0,
                   .figures = {},
                   .text = {},
                   .files = {},
                   .samples = 7,
                   .available = 7}};
}

// Means of 2.5 and 2 that have different weights: their mean is 2.25, that of all samples 2.4.
std::vector<KeptEvaluation> two_parts() {
  return {kept("a", {{"", "loss", 10, 4}, {"x", "loss", 10, 4}}),
          kept("b", {{"", "loss", 2, 1}, {"y", "loss", 2, 1}})};
}

std::string pool_problem(const std::vector<KeptEvaluation>& evaluations) {
  return tests::message_of<Error>([&] { require_poolable(evaluations); });
}

// A task that was only created; its report gives the figure "spread": the number of the split, and sum x
// weight of each value.
class Pool : public testing::Test {
 protected:
  pl_context context_{"zoo"};
  plugins::Task task_{plugins::Plugin::load(plugins::zoo("rows_right")), context_, nullptr};
};

TEST_F(Pool, WeighsEachPartByItsSamples) {
  const Evaluation all = pool(task_, two_parts());
  EXPECT_EQ(all.find("loss")->value, 12.0 / 5);
  EXPECT_EQ(all.find("perplexity")->value, std::exp(12.0 / 5))
      << "as the evaluations describe it: the task was not asked";
  EXPECT_EQ(all.find("spread")->value, PL_SPLIT_TEST + 12 * 5 + 10 * 4 + 2 * 1)
      << "the report gets the sums of all parts together";
  EXPECT_EQ(all.samples, 14u);
  EXPECT_EQ(all.available, 14u);
  EXPECT_THAT(all.text, ElementsAre("two\nlines"));
  ASSERT_EQ(all.files.size(), 1u);
  EXPECT_EQ(all.files[0].bytes, "a,b");
}

TEST_F(Pool, SumsOfThreePartsAddValuesThatOnlySomeHave) {
  auto evaluations = two_parts();
  evaluations.push_back(kept("c", {{"", "rare", 3, 2}, {"", "loss", 1, 1}}));
  for (KeptEvaluation& one : evaluations)
    one.sums.metrics.push_back({.name = "rare", .source = "rare", .help = {}});
  const Evaluation all = pool(task_, evaluations);
  EXPECT_EQ(all.find("loss")->value, 13.0 / 6);
  EXPECT_EQ(all.find("rare")->value, 1.5);
}

TEST_F(Pool, AValueThatIsNoNumberMakesFiguresThatAreNoneAndIsNamed) {
  auto evaluations = two_parts();
  evaluations[1].sums.sums[0].sum = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(pool_problem(evaluations), "(nothing was thrown)");
  EXPECT_THAT(doubts_about(evaluations),
              ElementsAre("run/b/evaluation-test.json: 'loss' is nan with weight 1, so figures from it are "
                          "not finite: see the stage 'b'"));
  EXPECT_TRUE(std::isnan(pool(task_, evaluations).find("loss")->value));
}

TEST(Poolable, DifferentPartsAre) {
  EXPECT_EQ(pool_problem(two_parts()), "(nothing was thrown)");
  EXPECT_THAT(doubts_about(two_parts()), IsEmpty());
}

TEST(Poolable, APartMayBeInOneEvaluationAlone) {
  auto evaluations = two_parts();
  evaluations.push_back(kept("c", {{"z", "loss", 1, 1}, {"x", "loss", 1, 1}, {"x", "accuracy", 1, 1}}));
  EXPECT_EQ(
      pool_problem(evaluations),
      "run/a/evaluation-test.json and run/c/evaluation-test.json both scored x: each part of the data may "
      "count only once: have the stages 'a' and 'c' evaluate different parts, or leave one of them out");
  evaluations[1].sums.sums =
      evaluations[2].sums.sums = {{"p", "loss", 1, 1}, {"q", "loss", 1, 1}, {"r", "loss", 1, 1}};
  EXPECT_THAT(pool_problem(evaluations),
              testing::StartsWith(
                  "run/b/evaluation-test.json and run/c/evaluation-test.json both scored p (and 2 more): "));
}

TEST(Poolable, CutEvaluationsAreNot) {
  auto evaluations = two_parts();
  evaluations[1].sums.available = 9;
  EXPECT_EQ(
      pool_problem(evaluations),
      "run/b/evaluation-test.json: covers 7 of the split's 9 samples (evaluate.max_samples), but only whole "
      "evaluations can be pooled: set evaluate.max_samples = 0 for the stage 'b' and run it again");
}

TEST(Poolable, EvaluationsWithRecordsAreNot) {
  auto evaluations = two_parts();
  evaluations[1].sums.records = 7;
  EXPECT_EQ(pool_problem(evaluations),
            "run/b/evaluation-test.json: its report needs 7 records of samples, which are not stored, so it "
            "cannot be pooled: leave out the stage 'b'");
}

TEST(Poolable, OtherSplitsAndFiguresAreNot) {
  auto evaluations = two_parts();
  evaluations[1].sums.split = PL_SPLIT_VAL;
  EXPECT_EQ(pool_problem(evaluations),
            "run/a/evaluation-test.json is of split test, run/b/evaluation-test.json of val: only "
            "evaluations of one split can be pooled");
  evaluations = two_parts();
  evaluations[1].sums.metrics[0].source = "own";
  EXPECT_EQ(
      pool_problem(evaluations),
      "run/a/evaluation-test.json and run/b/evaluation-test.json differ in their figures or how they are "
      "computed: give the stages 'a' and 'b' the same task and task options, except the part of the data");
}

TEST(Poolable, EvaluationsWithoutPartsAreDoubted) {
  auto evaluations = two_parts();
  evaluations[0].sums.sums.pop_back();
  EXPECT_THAT(doubts_about(evaluations), ElementsAre("run/a/evaluation-test.json: does not say which parts "
                                                     "of the data it scored, so some may be counted twice"));
}

TEST(Poolable, AnEvaluationThatIsGoneNamesTheStageToRunAgain) {
  EXPECT_EQ(tests::message_of<Error>([] { read_evaluation("test-0", "nowhere/evaluation-test.json"); }),
            "nowhere/evaluation-test-files/sums.json: cannot be read: No such file or directory: run the "
            "stage 'test-0' again, with --stage test-0 --fresh");
}

// What is wrong with a pool shows in the configuration alone.

constexpr const char* kTask = "task.plugin = 'zoo'\n";
constexpr const char* kLearn = "[[stage]]\nname = 'learn'\n";
constexpr const char* kTest = "[[stage]]\nname = 'test'\nkind = 'evaluate'\ninit_from = 'learn'\n";
constexpr const char* kAgain = "[[stage]]\nname = 'again'\nkind = 'evaluate'\ninit_from = 'learn'\n";
constexpr const char* kAll = "[[stage]]\nname = 'all'\nkind = 'pool'\n";

// What is wrong with a configuration, without its folder.
std::string pool_problem(const std::string& text, const std::string& stage = "") {
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
  EXPECT_EQ(pool_problem(stages), "(nothing was thrown)");
  EXPECT_EQ(pool_problem(stages, "all"), "(nothing was thrown)");
  EXPECT_EQ(pool_problem(""), "(nothing was thrown)");
}

TEST(PoolStage, NeedsEvaluationsBeforeIt) {
  const std::string problem =
      ": stage.kind = \"pool\": no stage before this one evaluates, so there is nothing to pool";
  EXPECT_EQ(pool_problem(kAll), "x.toml:4" + problem);
  EXPECT_EQ(pool_problem(std::string(kLearn) + kAll + kTest), "x.toml:6" + problem);
  EXPECT_EQ(pool_problem(std::string(kLearn) + kAll + kTest, "all"), "x.toml:6" + problem);
  EXPECT_EQ(pool_problem(std::string(kLearn) + kAll + kTest, "test"), "(nothing was thrown)")
      << "that stage is not asked for";
}

// What is said of two stages that are added up, `here` and `there`.
std::string differ(const std::string& here, const std::string& there, const std::string& value) {
  return ": is of the stage '" + here + "', but '" + there + "' has " + value +
         ": the stage 'all' pools both, so they must be the same";
}

TEST(PoolStage, NeedsEvaluationsOfOneSplit) {
  const std::string split = "evaluate.split = 'val'\n";
  EXPECT_EQ(pool_problem(std::string(kLearn) + kTest + kAgain + split + kAll),
            "x.toml:12: evaluate.split = \"val\"" + differ("again", "test", "\"test\""));
  EXPECT_EQ(pool_problem(std::string(kLearn) + kTest + split + kAgain + kAll),
            "x.toml:8: evaluate.split = \"val\"" + differ("test", "again", "\"test\""));
}

TEST(PoolStage, NeedsTheTaskOfItsEvaluations) {
  EXPECT_EQ(pool_problem(std::string(kLearn) + kTest + kAll + "task.plugin = 'other'\n"),
            "x.toml:11: task.plugin = \"other\"" + differ("all", "test", "\"zoo\""));
}

TEST(PoolStage, NeedsWholeEvaluations) {
  const std::string problem =
      ": evaluate.max_samples = 9: may cut the stage 'test' short, but the stage 'all' pools whole "
      "evaluations: set it to 0 for 'test' (in [stage.evaluate])";
  EXPECT_EQ(pool_problem("evaluate.max_samples = 9\n" + std::string(kLearn) + kTest + kAll),
            "x.toml:2" + problem);
  EXPECT_EQ(pool_problem("evaluate.max_samples = 9\n" + std::string(kLearn) + kTest +
                         "evaluate.max_samples = 0\n" + kAll),
            "(nothing was thrown)");
}

TEST(PoolStage, TakesNoWeights) {
  EXPECT_EQ(pool_problem(std::string(kLearn) + kTest + kAll + "init_from = 'learn'\n"),
            "x.toml:11: stage.init_from = \"learn\": has no effect in a pool stage, which uses no weights: "
            "leave it out");
}

}  // namespace
}  // namespace pipeline::train
