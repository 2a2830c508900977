// The parts of a training loop, each held alone, with a task and a strategy in plain C.
#include "core/train/run_steps.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/trainer.hpp"

#include <chrono>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "core/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct OpenSession : Session {
  OpenSession(config::Config config, plugins::Registry& registry, observe::Log& log, SessionArgs args)
      : Session(std::move(config), registry, log, std::move(args)) {
    open_task(nullptr);
    create_strategy();
    load_weights(*this, {});
    bind();
  }
};

// A run of one process at its first step: what a trainer has when it starts.
class RunParts : public testing::Test {
 protected:
  explicit RunParts(std::vector<std::string> sets = {}) : config_(load(std::move(sets))) {
    records_ = open_records(session_, folder_, 1, false);
    saver_.set_records(records_.get());
    activity_.start_clock();
  }

  static config::Config load(std::vector<std::string> sets) {
    sets.insert(sets.begin(), {"task.plugin=linear_regression", "strategy.plugin=plain_sgd",
                               "optimizer.kind=sgd", "optimizer.lr=0.05", "run.device=cpu",
                               "train.max_steps=4", "evaluate.every=2", "evaluate.at_end=false"});
    return config::load({.file = "", .sets = std::move(sets)});
  }
  void take_steps(uint64_t count) {
    steps_.start_loading();
    for (uint64_t i = 0; i < count; ++i) steps_.take();
    reports_.collect_all();
  }
  bool has_checkpoint(uint64_t step) const {
    const checkpoint::Scan scan = checkpoint::Store({.folder = folder_.checkpoints().string()}).scan();
    return !scan.checkpoints.empty() && scan.checkpoints.front().step == step;
  }

  tests::TemporaryFolder temporary_;
  config::Config config_;
  observe::Console console_{observe::Console::Mode::off};
  observe::Log log_{console_, observe::Level::error};
  plugins::Registry registry_{{{PIPELINE_BUILD_DIR "/tests/plugins", "the test"}}};
  ProcessGroup processes_{
      World(), log_, {.rendezvous = std::chrono::seconds(20), .stall = std::chrono::seconds(20)}};
  RunFolder folder_{temporary_.path() / "run", false};
  OpenSession session_{
      config_, registry_, log_, {.run_dir = folder_.path(), .world = World(), .processes = &processes_}};
  TrainState state_;
  RunActivity activity_{session_, state_};
  std::vector<StepRecord> complete_;
  StepReports reports_{{.collect = [this](uint64_t ticket) { return session_.strategy().collect(ticket); },
                        .read = [](const auto&) { return std::vector<MetricSum>(); },
                        .add_up = [](const auto& mine) { return mine; },
                        .collected =
                            [this](const StepRecord& record) {
                              state_.health.add_step(record.step, record.loss, !record.skipped);
                            },
                        .complete = [this](const StepRecord& record) { complete_.push_back(record); }}};
  RunSteps steps_{session_, state_, reports_, activity_};
  Validation validation_{session_, state_, activity_};
  bool is_summarized_ = false;
  RunSaver saver_{{.session = session_,
                   .folder = folder_,
                   .state = state_,
                   .reports = reports_,
                   .activity = activity_,
                   .validation = validation_,
                   .summarize_unfinished = [this] { is_summarized_ = true; }}};
  std::unique_ptr<Records> records_;
};

TEST_F(RunParts, StepsAreTakenAndReportedInOrder) {
  take_steps(3);
  EXPECT_EQ(state_.step, 3u);
  ASSERT_EQ(complete_.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(complete_[i].step, i + 1);
  EXPECT_LT(complete_[2].loss, complete_[0].loss);
  EXPECT_EQ(activity_.phase(), "training step 3");
}

TEST_F(RunParts, EachStepHasTheRateOfTheSchedule) {
  take_steps(2);
  EXPECT_EQ(complete_[1].learning_rate, steps_.schedule().at(1));
}

TEST_F(RunParts, AnEvaluationIsDueEverySoManyStepsAndOnce) {
  EXPECT_FALSE(validation_.due(false)) << "evaluate.at_start is not set";
  take_steps(2);
  EXPECT_TRUE(validation_.due(false));
  ASSERT_TRUE(validation_.evaluate([] { FAIL() << "nothing has to be rescued"; }));
  EXPECT_FALSE(validation_.due(false));
}

TEST_F(RunParts, AnEvaluationThatIsRecordedAlreadyIsNotDue) {
  state_.step = 2;
  folder_.write_file("eval.jsonl", "{\"step\": 2}\n");
  validation_.begin(folder_, nullptr);
  EXPECT_FALSE(validation_.due(false));
}

TEST_F(RunParts, AMetricIsOfTheStepThatWasEvaluated) {
  take_steps(2);
  validation_.evaluate([] {});
  ASSERT_TRUE(validation_.metric());
  EXPECT_EQ(validation_.metric()->name, "loss");
  EXPECT_TRUE(validation_.is_best());
  ++state_.step;
  EXPECT_FALSE(validation_.metric());
  EXPECT_FALSE(validation_.is_best());
}

TEST_F(RunParts, AnEvaluationOfUntrainedWeightsSelectsNothing) {
  EXPECT_TRUE(validation_.evaluate([] {}));
  EXPECT_FALSE(validation_.metric());
  EXPECT_FALSE(state_.best);
}

TEST_F(RunParts, AStepIsSavedOnceAndAgainWithItsMetric) {
  take_steps(2);
  saver_.save(true);
  EXPECT_TRUE(has_checkpoint(2));
  EXPECT_FALSE(saver_.lacks_metric());
  validation_.evaluate([] {});
  EXPECT_TRUE(saver_.lacks_metric());
  saver_.save(true);
  EXPECT_TRUE(saver_.checkpointer().saved(2, true));
}

TEST_F(RunParts, ACheckpointAfterASkippedUpdateIsOwedUntilTheNextOne) {
  take_steps(2);
  state_.health.add_step(3, 1, false);
  saver_.save(false);
  EXPECT_TRUE(saver_.is_owed());
  EXPECT_FALSE(has_checkpoint(2));
  state_.health.add_step(4, 1, true);
  saver_.save(false);
  saver_.checkpointer().finish();
  EXPECT_FALSE(saver_.is_owed());
  EXPECT_TRUE(has_checkpoint(2));
}

TEST_F(RunParts, ARunThatHasDivergedIsMarkedAndSummarized) {
  take_steps(2);
  try {
    saver_.end_diverged({"a sign"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), PL_ERROR_CONFIG) << "it is not restarted";
    EXPECT_THAT(error.what(), HasSubstr("the run has diverged: a sign"));
  }
  EXPECT_TRUE(is_summarized_);
  EXPECT_TRUE(folder_.diverged());
}

TEST_F(RunParts, ARunWhoseRecordsAreTakenAwaySavesAndEnds) {
  take_steps(2);
  EXPECT_EQ(saver_.lost(), "");
  records_->evaluation({{"step", 2}, {"loss", 1.0}});
  fs::remove(folder_.evaluations());
  const std::string lost = saver_.lost();
  EXPECT_THAT(lost, HasSubstr("eval.jsonl"));
  try {
    saver_.end_if_lost(lost);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("step 2 was saved, and the same command goes on from it"));
  }
  EXPECT_TRUE(has_checkpoint(2));
}

TEST_F(RunParts, ARunsTimeGoesOnFromThatOfEarlierLaunches) {
  state_.seconds = 100;
  EXPECT_GE(activity_.elapsed(), 100);
  EXPECT_LT(activity_.elapsed(), 160);
}

}  // namespace
}  // namespace pipeline::train
