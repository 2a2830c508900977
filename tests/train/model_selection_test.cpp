#include "core/train/validation.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/config/config.hpp"

namespace pipeline::train {
namespace {

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
