#include "core/train/train_state.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/config/config.hpp"
#include "core/train/validation.hpp"

namespace pipeline::train {
namespace {

// Steps with these losses, of which those in `skipped` had no update.
Health after(std::vector<double> losses, std::vector<uint64_t> skipped = {}) {
  Health health;
  for (size_t i = 0; i < losses.size(); ++i)
    health.add_step(i + 1, losses[i], std::ranges::find(skipped, i + 1) == skipped.end());
  return health;
}

const double kNan = std::nan("");

TEST(Health, WeightsAreSoundOnceALossOfTheirsIsFinite) {
  const Health health = after({3, 2, 1});
  EXPECT_EQ(health.sound(), 2u) << "of the third update nothing is known yet";
  EXPECT_EQ(health.skipped(), 0u);
  EXPECT_FALSE(health.ends_badly());
  EXPECT_EQ(health.last_finite_loss()->step, 3u);
}

TEST(Health, AnUpdateThatRuinsTheWeightsShowsOneStepLater) {
  const Health health = after({3, 2, 1, kNan, kNan}, {4, 5});
  EXPECT_EQ(health.sound(), 2u);
  EXPECT_EQ(health.first_skipped(), 4u);
  EXPECT_EQ(health.skipped(), 2u);
  EXPECT_TRUE(health.ends_badly());
  EXPECT_FALSE(health.skips_on_sound_weights());
  EXPECT_EQ(health.last_finite_loss()->value, 1);
  EXPECT_TRUE(after({3, kNan}, {2}).ends_badly());
}

TEST(Health, ALossThatExplodesIsNoProofOfGoodWeights) {
  const Health health = after({3, 2, 1e20, kNan, kNan}, {4, 5});
  EXPECT_EQ(health.sound(), 1u);
  EXPECT_EQ(after({1e-3, 5, 2}).sound(), 2u) << "next to nothing is no measure";
  EXPECT_EQ(after({1e20, 1e20}).sound(), 1u);
  Health evaluated = after({3, 2});
  evaluated.add_evaluation(2, 1e20, "");
  EXPECT_EQ(evaluated.sound(), 1u);
}

TEST(Health, ASingleSkipOnSoundWeightsIsHarmless) {
  const Health overflow = after({3, 2, 1}, {3});  // fp16: the loss is finite, a scaled gradient is not
  EXPECT_FALSE(overflow.ends_badly());
  EXPECT_EQ(overflow.sound(), 3u);
  EXPECT_EQ(overflow.sound_before_skips(), 2u);
  Health bad_batch = after({3, 2, kNan}, {3});
  EXPECT_TRUE(bad_batch.ends_badly());
  bad_batch.add_evaluation(3, 1, "");
  EXPECT_FALSE(bad_batch.ends_badly());
  EXPECT_EQ(bad_batch.sound(), 3u);
}

TEST(Health, SkippingIsNoEndWhateverTheWeights) {
  Health health = after({3, 2, 1}, {2, 3});
  EXPECT_TRUE(health.skips_on_sound_weights());
  EXPECT_TRUE(health.ends_badly());
  health.add_evaluation(3, 1, "");
  EXPECT_TRUE(health.ends_badly());
  health.add_step(4, 1, true);
  EXPECT_FALSE(health.ends_badly());
  EXPECT_TRUE(after({3}, {1}).ends_badly()) << "nothing was learnt at all";
}

TEST(Health, ABadLastEvaluationIsABadEnd) {
  Health health = after({3, 2});
  health.add_evaluation(2, kNan, "loss nan");
  EXPECT_TRUE(health.ends_badly());
  EXPECT_EQ(health.sound(), 1u);
  health.add_evaluation(2, 1, "");
  EXPECT_FALSE(health.ends_badly());
}

TEST(Health, ContinuesFromItsState) {
  Health health = after({3, 2, kNan}, {3});
  health.add_evaluation(3, kNan, "loss nan");
  Health continued;
  continued.load_state(health.state());
  EXPECT_EQ(continued.state(), health.state());
  EXPECT_FALSE(Health(40).ends_badly()) << "of a checkpoint that does not say";
}

TEST(Divergence, SaysWhatHappenedAndWhatToDo) {
  const config::Config config = config::load({.file = "",
                                              .sets = {"task.plugin=t", "optimizer.lr=0.5"},
                                              .changes = {},
                                              .stage = "",
                                              .find_plugins = {}});
  EXPECT_EQ(describe({.health = after({3, 2.5, kNan, kNan}, {3, 4}),
                      .signs = {"train.max_nonfinite_steps = 2 ends the run here"},
                      .last_good = "run/checkpoints/step-00000001",
                      .set_aside = {"diverged-step-00000002"}},
                     config, "fp16"),
            "the run has diverged: the gradient was not finite, and the update was skipped, in 2 steps in a "
            "row, from step 3 on; train.max_nonfinite_steps = 2 ends the run here\n"
            "  last finite loss: 2.5, in step 2\n"
            "  last good checkpoint: run/checkpoints/step-00000001\n"
            "  set aside, not to be gone on from: diverged-step-00000002\n"
            "  what to do: go on from there with --change optimizer.lr=0.05 (it was 0.5); "
            "schedule.warmup_steps (0) and train.clip_grad_norm (1.0) help, too; or start over with --fresh "
            "and another train.precision (it was fp16); or look at the data");
}

// A run that evaluates every 10 steps.
class Selection : public testing::Test {
 protected:
  explicit Selection(std::vector<std::string> sets = {}) : config_(load(std::move(sets))) {}

  static config::Config load(std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"task.plugin=zoo", "evaluate.every=10"});
    return config::load({.file = "", .sets = std::move(sets)});
  }
  ModelSelection::Judgement judge(uint64_t step, std::vector<Figure> figures) {
    Evaluation evaluation;
    evaluation.figures = std::move(figures);
    state_.step = step;
    return selection_.judge(evaluation);
  }
  ModelSelection::Judgement loss(uint64_t step, double value) { return judge(step, {{"loss", value}}); }

  config::Config config_;
  TrainState state_;
  ModelSelection selection_{config_.options().evaluate, state_};
};

class ByAccuracy : public Selection {
 protected:
  ByAccuracy() : Selection({"evaluate.best_metric=accuracy"}) {}
  ModelSelection::Judgement accuracy(uint64_t step, double value, double loss = 1) {
    return judge(step, {{"loss", loss}, {"accuracy", value, PL_BETTER_HIGHER}});
  }
};

class Patient : public Selection {
 protected:
  Patient() : Selection({"evaluate.patience=2", "evaluate.min_delta=0.1"}) {}
};

TEST_F(Selection, TheLowestLossIsTheBest) {
  EXPECT_TRUE(loss(10, 2).is_best);
  EXPECT_FALSE(loss(20, 2).is_best) << "as good is no better";
  EXPECT_TRUE(loss(30, 1).is_best);
  EXPECT_FALSE(loss(40, 3).is_best);
  EXPECT_EQ(state_.best->step, 30u);
}

TEST_F(ByAccuracy, AFigureSaysItselfWhetherHigherIsBetter) {
  EXPECT_TRUE(accuracy(10, 0.5).metric.higher_is_better);
  EXPECT_FALSE(accuracy(20, 0.4).is_best);
  EXPECT_TRUE(accuracy(30, 0.6).is_best);
}

TEST_F(ByAccuracy, TheBestOfAnotherFigureIsForgotten) {
  state_.best = Best{"loss", 0.001, 5};
  EXPECT_TRUE(accuracy(10, 0.5).is_best);
}

TEST_F(ByAccuracy, NoFigureIsGoodWhereTheLossIsNaN) {
  const ModelSelection::Judgement judgement = accuracy(10, 0.9, std::nan(""));
  EXPECT_FALSE(judgement.is_best);
  EXPECT_TRUE(std::isnan(judgement.metric.value));
  EXPECT_EQ(state_.health.bad_evaluation(), "the evaluation after step 10 gave loss nan");
}

TEST_F(Selection, WithoutPatienceARunGoesOn) {
  for (uint64_t step = 10; step <= 100; step += 10) loss(step, 1);
  EXPECT_FALSE(selection_.stops_early());
}

TEST_F(Patient, ARunEndsWhenSoManyInARowAreNoBetter) {
  loss(10, 2);
  loss(20, 3);
  EXPECT_FALSE(selection_.stops_early());
  loss(30, 2.5);
  EXPECT_TRUE(selection_.stops_early());
  EXPECT_EQ(
      selection_.why_it_stops(),
      "2 evaluations in a row gave no better loss than 2 of step 10 by more than 0.1 (evaluate.patience)");
}

TEST_F(Patient, AGainBelowMinDeltaIsTheBestButNoReasonToWaitLonger) {
  loss(10, 2);
  EXPECT_TRUE(loss(20, 1.95).is_best);
  loss(30, 1.92);
  EXPECT_TRUE(selection_.stops_early());
}

TEST_F(Patient, AnEvaluationBesideTheRegularOnesDoesNotCount) {
  loss(10, 2);
  loss(20, 3);
  loss(25, 3);
  EXPECT_FALSE(selection_.stops_early());
}

TEST_F(Patient, AnEvaluationThatIsNotFiniteIsNoBetter) {
  loss(10, 2);
  loss(20, std::nan(""));
  loss(30, INFINITY);
  EXPECT_TRUE(selection_.stops_early());
}

}  // namespace
}  // namespace pipeline::train
