// When a step's report is complete, what is in it, and when the loss scale learns of it.
#include "core/train/step_reports.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/train/session/metrics.hpp"

#include <cmath>

#include <gmock/gmock.h>

#include "core/train/train_state.hpp"

namespace pipeline::train {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::Pair;
using Events = std::vector<std::string>;

// One rank's reports; what a device or another rank would say is set by the test.
class StepReportsTest : public testing::Test {
 protected:
  // A step whose report has the loss sum 6 and the norm 2, until the test says otherwise.
  TakenStep step(uint64_t number, double weight = 3) {
    TakenStep step;
    step.ticket = 100 + number;
    step.weight = weight;
    step.began = now_seconds();
    step.record.step = number;
    pl_step_report report{};
    report.loss_sum = 6;
    report.grad_norm = 2;
    report.finite = 1;
    device_[step.ticket] = report;
    return step;
  }
  TakenStep step_with_late_metric(uint64_t number) {
    TakenStep late = step(number);
    late.late = {{.name = "accuracy", .sum = {}, .weight = 4}};
    return late;
  }
  void skip(uint64_t number) {
    device_[100 + number].finite = 0;
    device_[100 + number].loss_sum = -NAN;
    device_[100 + number].grad_norm = -INFINITY;
  }

  Boundary told() {
    Boundary mine;
    reports_.tell(mine);
    return mine;
  }
  // A boundary between steps of a run with one process.
  void boundary() { reports_.hear(told()); }
  void take(TakenStep step) { reports_.take(std::move(step), scale_); }
  // What has happened since the last call.
  Events events() { return std::exchange(events_, {}); }

  StepReports reports_{ends()};
  LossScale scale_{{.dynamic = true, .initial = 64, .growth_interval = 1}};  // twice as large with each step
  std::vector<MetricSum> of_others_;                                         // their late metrics
  std::vector<StepRecord> complete_;

 private:
  StepReports::Ends ends() {
    StepReports::Ends ends;
    ends.collect = [this](uint64_t ticket) {
      events_.push_back("collect " + std::to_string(ticket - 100));
      return device_.at(ticket);
    };
    ends.read = [](const std::vector<LateMetric>& late) {
      std::vector<MetricSum> sums;
      for (const LateMetric& metric : late) add(sums, {metric.name, 2, metric.weight});
      return sums;
    };
    ends.add_up = [this](const std::vector<MetricSum>& mine) {
      events_.push_back("add up");
      std::vector<MetricSum> all = mine;
      for (const MetricSum& metric : of_others_) add(all, metric);
      return all;
    };
    ends.collected = [this](const StepRecord& record) {
      events_.push_back("collected " + std::to_string(record.step));
    };
    ends.complete = [this](const StepRecord& record) {
      events_.push_back("complete " + std::to_string(record.step));
      complete_.push_back(record);
    };
    return ends;
  }

  std::map<uint64_t, pl_step_report> device_;
  Events events_;
};

TEST_F(StepReportsTest, ComeOnceAndInOrderDuringTheNextStep) {
  boundary();
  take(step(1));
  boundary();
  EXPECT_THAT(events(), IsEmpty()) << "nobody waits for the device";
  EXPECT_TRUE(reports_.pending());
  take(step(2));
  EXPECT_THAT(events(), ElementsAre("collect 1", "collected 1", "complete 1"));
  boundary();
  take(step(3));
  EXPECT_THAT(events(), ElementsAre("collect 2", "collected 2", "complete 2"));
  boundary();
  reports_.collect_all();
  EXPECT_THAT(events(), ElementsAre("collect 3", "collected 3", "complete 3"));
  reports_.collect_all();
  EXPECT_THAT(events(), IsEmpty());
  EXPECT_EQ(complete_[0].loss, 2) << "the sum over the weight of all ranks";
  EXPECT_EQ(complete_[0].grad_norm, 2);
  EXPECT_FALSE(complete_[0].skipped);
}

TEST_F(StepReportsTest, AStepThatIsCollectedEarlyIsNotCollectedAgain) {
  take(step(1));
  boundary();
  reports_.collect_all();  // an evaluation or a checkpoint does so
  EXPECT_THAT(events(), ElementsAre("collect 1", "collected 1", "complete 1"));
  EXPECT_FALSE(reports_.pending());
  boundary();
  take(step(2));
  EXPECT_THAT(events(), IsEmpty());
  EXPECT_TRUE(reports_.pending());
}

TEST_F(StepReportsTest, MetricsOfTheBoundaryAreThoseOfTheLastStep) {
  take(step(1));
  reports_.hear({.metrics = {{"accuracy", 3, 4}, {kDeviceUtilisation, 1.5, 2}, {"of nothing", 0, 0}},
                 .late_metrics = {}});
  take(step(2));
  boundary();
  take(step(3));
  EXPECT_THAT(complete_[0].task_metrics, ElementsAre(Pair("accuracy", 0.75)));
  EXPECT_EQ(complete_[0].device_utilisation, 0.75);
  EXPECT_THAT(complete_[1].task_metrics, IsEmpty());
  EXPECT_EQ(complete_[1].device_utilisation, std::nullopt);
}

TEST_F(StepReportsTest, LateMetricsOfThisRankCompleteAStepOneBoundaryLater) {
  take(step_with_late_metric(1));
  EXPECT_TRUE(told().has_late);
  boundary();
  take(step(2));
  EXPECT_THAT(events(), ElementsAre("collect 1", "collected 1"));
  const Boundary mine = told();
  EXPECT_FALSE(mine.has_late) << "step 2 has none";
  EXPECT_THAT(mine.late_metrics, ElementsAre(Field(&MetricSum::sum, 2)));
  EXPECT_THAT(events(), IsEmpty());
  reports_.hear(mine);
  EXPECT_THAT(events(), ElementsAre("complete 1"));
  EXPECT_THAT(complete_[0].task_metrics, ElementsAre(Pair("accuracy", 0.5)));
  EXPECT_THAT(told().late_metrics, IsEmpty());
  take(step(3));
  EXPECT_THAT(events(), ElementsAre("collect 2", "collected 2", "complete 2")) << "has nothing to wait for";
}

TEST_F(StepReportsTest, LateMetricsOfOtherRanksAloneAreWaitedFor) {
  take(step(1));
  Boundary all = told();
  EXPECT_FALSE(all.has_late);
  all.has_late = true;  // another rank's are
  reports_.hear(all);
  take(step(2));
  EXPECT_THAT(events(), ElementsAre("collect 1", "collected 1"));
  all = told();
  EXPECT_THAT(all.late_metrics, IsEmpty());
  all.late_metrics = {{"accuracy", 1, 4}};
  reports_.hear(all);
  EXPECT_THAT(events(), ElementsAre("complete 1"));
  EXPECT_THAT(complete_[0].task_metrics, ElementsAre(Pair("accuracy", 0.25)));
}

TEST_F(StepReportsTest, LateMetricsAreAddedUpAtOnceWhereAStepIsCollectedEarly) {
  of_others_ = {{"accuracy", 4, 4}};
  take(step_with_late_metric(1));
  boundary();
  reports_.collect_all();
  EXPECT_THAT(events(), ElementsAre("collect 1", "collected 1", "add up", "complete 1"));
  EXPECT_THAT(complete_[0].task_metrics, ElementsAre(Pair("accuracy", 0.75)));
  EXPECT_THAT(told().late_metrics, IsEmpty()) << "they are not counted twice";
}

TEST_F(StepReportsTest, AnEarlyCollectionCompletesBothStepsInOrder) {
  take(step_with_late_metric(1));
  boundary();
  take(step_with_late_metric(2));
  boundary();
  reports_.collect_all();
  EXPECT_THAT(events(), ElementsAre("collect 1", "collected 1", "complete 1", "collect 2", "collected 2",
                                    "add up", "complete 2"));
}

TEST_F(StepReportsTest, TheWaitForDataIsThatOfTheStepThatWaited) {
  EXPECT_EQ(told().data_wait, 0) << "before any step";
  TakenStep first = step(1);
  first.data_wait = 0.5;
  take(first);
  Boundary all = told();
  EXPECT_EQ(all.data_wait, 0.5);
  all.data_wait = 0.75;  // another rank waited longer
  reports_.hear(all);
  TakenStep second = step(2);
  second.data_wait = 0.25;
  take(second);
  boundary();
  reports_.collect_all();
  EXPECT_EQ(told().data_wait, 0) << "it is counted once";
  EXPECT_EQ(complete_[0].data_wait_seconds, 0.75);
  EXPECT_EQ(complete_[1].data_wait_seconds, 0.25);
}

TEST_F(StepReportsTest, AStepLastsUntilTheNextOneBegins) {
  TakenStep first = step(1);
  first.began = 1000;
  take(first);
  boundary();
  reports_.next_step_begins(1002.5);
  TakenStep second = step(2);
  second.began = now_seconds() - 50;
  take(second);
  EXPECT_EQ(complete_[0].seconds, 2.5);
  boundary();
  reports_.collect_all();  // before the next step
  EXPECT_GE(complete_[1].seconds, 50);
  EXPECT_LT(complete_[1].seconds, 1000);
  reports_.next_step_begins(5000);
  EXPECT_EQ(complete_.size(), 2u);
}

TEST_F(StepReportsTest, TheLossScaleLearnsOfAStepWhenTheNextIsTaken) {
  take(step(1));
  EXPECT_EQ(scale_.value(), 64);
  EXPECT_EQ(reports_.unapplied(), std::nullopt);
  boundary();
  take(step(2));
  EXPECT_EQ(scale_.value(), 128) << "of step 1";
  boundary();
  take(step(3));
  EXPECT_EQ(scale_.value(), 256);
  EXPECT_EQ(reports_.unapplied(), std::nullopt) << "step 3 is not collected";
}

TEST_F(StepReportsTest, AnEarlyCollectionTellsTheLossScaleNothingEarlier) {
  take(step(1));
  boundary();
  reports_.collect_all();
  EXPECT_EQ(scale_.value(), 64);
  EXPECT_EQ(reports_.unapplied(), true);
  take(step(2));
  EXPECT_EQ(scale_.value(), 128);
  EXPECT_EQ(reports_.unapplied(), std::nullopt) << "once";
  take(step(3));
  EXPECT_EQ(scale_.value(), 256);
}

TEST_F(StepReportsTest, ASkippedStepIsOneForTheLossScaleToo) {
  take(step(1));
  skip(1);
  boundary();
  take(step(2));
  EXPECT_TRUE(complete_[0].skipped);
  EXPECT_TRUE(std::isnan(complete_[0].loss));
  EXPECT_FALSE(std::signbit(complete_[0].loss)) << "NaN has no sign, so that records do not differ in it";
  EXPECT_EQ(complete_[0].grad_norm, -INFINITY);
  EXPECT_EQ(scale_.value(), 32);
  boundary();
  take(step(3));
  EXPECT_FALSE(complete_[1].skipped);
  EXPECT_EQ(scale_.value(), 64);
  EXPECT_EQ(scale_.nonfinite_total(), 1u);
}

TEST_F(StepReportsTest, ASavedRunGoesOnWithTheSameScales) {
  for (const uint64_t skipped : {1, 2, 3}) {
    scale_ = LossScale({.dynamic = true, .initial = 64, .growth_interval = 1});
    take(step(1));
    if (skipped == 1) skip(1);
    take(step(2));
    if (skipped == 2) skip(2);
    reports_.collect_all();  // a checkpoint after step 2
    TrainState saved;
    saved.loss_scale = scale_;
    saved.unapplied = reports_.unapplied();
    EXPECT_EQ(saved.unapplied, skipped != 2);
    take(step(3));
    if (skipped == 3) skip(3);
    const double in_step_4 = scale_.value();
    take(step(4));
    const double in_step_5 = scale_.value();
    reports_.collect_all();
    reports_.resume(std::nullopt);

    // Another process goes on from what was saved.
    TrainState loaded = TrainState::from_json(
        saved.to_json(), {.dynamic = true, .initial = 64, .growth_interval = 1}, "checkpoint");
    scale_ = loaded.loss_scale;
    reports_.resume(loaded.unapplied);
    take(step(3));
    if (skipped == 3) skip(3);
    EXPECT_EQ(scale_.value(), in_step_4) << skipped;
    take(step(4));
    EXPECT_EQ(scale_.value(), in_step_5) << skipped;
    reports_.collect_all();
    reports_.resume(std::nullopt);
  }
}

TEST_F(StepReportsTest, AStepWithoutWeightHasNoLoss) {
  take(step(1, 0));
  boundary();
  reports_.collect_all();
  EXPECT_THAT(complete_[0].loss, DoubleEq(0));
  EXPECT_FALSE(complete_[0].skipped);
}

}  // namespace
}  // namespace pipeline::train
