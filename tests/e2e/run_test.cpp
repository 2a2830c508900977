// Whole runs with the plugins in plain C: a task that fits a line, a strategy that does SGD.
#include <sys/mount.h>

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <test_paths.hpp>

#include "tests/e2e/job.hpp"
#include "tests/e2e/program.hpp"

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const std::string kConfig = linear_run("reproducible = true\n") + R"([train]
global_batch = 16
micro_batch = 4
max_steps = 60
[evaluate]
every = 20
[checkpoint]
every = 15
)";

class Run : public testing::Test, public Job {
 protected:
  Run() { write_text(path("train.toml"), kConfig); }

  Result run(const Words& more = {}) const { return call("run", more); }
  Process start(const Words& more = {}) const { return Job::start("run", more); }
  std::string state(const std::string& run, int step) const {
    char name[32];
    std::snprintf(name, sizeof name, "step-%08d", step);
    return read_text(path(run) / "checkpoints" / name / "state-00000-of-00001.safetensors");
  }
  std::vector<std::string> checkpoints(const std::string& run) const {
    std::vector<std::string> names;
    if (fs::exists(path(run) / "checkpoints"))
      for (const auto& entry : fs::directory_iterator(path(run) / "checkpoints"))
        names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(Run, ATaskMayChangeTheFolderCloseTheStreamsAndFork) {
  const auto run_to = [&](const char* plugin, const char* steps, const char* folder) {
    return run({"schedule.kind=constant", std::string("task.plugin=") + plugin,
                std::string("train.max_steps=") + steps, std::string("run.dir=") + folder});
  };
  ASSERT_EQ(run_to("linear_regression", "60", "still").code, 0);
  ASSERT_EQ(run_to("restless_regression", "30", "run").code, 0);
  EXPECT_THAT(run_to("restless_regression", "60", "run").ended(0).out, HasSubstr("done: run\n"));
  EXPECT_EQ(curve("run"), curve("still"));
  EXPECT_EQ(state("run", 60), state("still", 60));
  EXPECT_TRUE(fs::exists(path("run/summary.json")));
  EXPECT_FALSE(fs::exists("/run/checkpoints"));
}

TEST_F(Run, StreamsThatAreClosedFromTheStartAreNoFilesOfTheRun) {
  const std::string program = pipeline_command({})[0], folder = path("");
  ASSERT_EQ(std::system(("cd '" + folder + "' && '" + program + "' run train.toml >&- 2>&- <&-").c_str()), 0);
  EXPECT_EQ(curve("run").size(), 60u);
}

TEST_F(Run, TrainsAndLeavesAWholeRunFolder) {
  const Result result = run().ended(0);
  for (const char* text :
       {"linear_regression", "plain_sgd", "16 samples = micro-batch 4 x 4 accumulation steps x 1 device",
        "fp32", "step 60/60", "evaluation after step 60"})
    EXPECT_THAT(result.out, HasSubstr(text));
  EXPECT_EQ(result.err, "");
  for (const char* file :
       {"config.toml", "model.json", "metrics.jsonl", "eval.jsonl", "train.log", "logs/rank-0.log"})
    EXPECT_TRUE(fs::exists(path("run") / file)) << file;
  const auto lines = read_lines(path("run/metrics.jsonl"));
  ASSERT_EQ(lines.size(), 60u);
  const auto first = nlohmann::json::parse(lines.front()), last = nlohmann::json::parse(lines.back());
  for (const char* key : {"step", "epoch", "loss", "learning_rate", "grad_norm", "samples", "tokens",
                          "tokens_per_second", "mfu", "seconds", "data_wait_seconds"})
    EXPECT_TRUE(first.contains(key)) << key;
  EXPECT_LT(last["loss"].get<double>(), first["loss"].get<double>() / 10);
  EXPECT_EQ(read_lines(path("run/eval.jsonl")).size(), 3u);
  const auto model = read_json(path("run/model.json"));
  EXPECT_EQ(model["parameters"]["total"], model["parameters"]["trainable"]);
}

// What kinds of state there are, and of which dtypes, is the ABI's: any strategy goes on where another one
// stopped.
TEST_F(Run, AStrategyInPlainCAndOneOverLibTorchContinueEachOther) {
  const auto train = [&](const std::string& dir, const std::string& strategy, const std::string& steps) {
    return run({"run.dir=" + dir, "strategy.plugin=" + strategy, "train.max_steps=" + steps,
                "run.reproducible=false", "optimizer.momentum=0.9", "schedule.kind=constant",
                "schedule.warmup_steps=0", "optimizer.lr=0.005"});
  };
  ASSERT_EQ(train("alone", "plain_sgd", "30").code, 0);
  ASSERT_EQ(train("in_turns", "plain_sgd", "10").code, 0);
  for (const auto& [strategy, steps] : {std::pair("single", "20"), std::pair("plain_sgd", "30")}) {
    EXPECT_THAT(train("in_turns", strategy, steps).ended(0).out,
                HasSubstr("continued from in_turns/checkpoints/step-000000"));
  }
  const auto alone = read_lines(path("alone/metrics.jsonl")),
             turns = read_lines(path("in_turns/metrics.jsonl"));
  ASSERT_EQ(alone.size(), 30u);
  ASSERT_EQ(turns.size(), 30u);
  for (size_t i = 0; i < 30; ++i) {
    const double expected = nlohmann::json::parse(alone[i])["loss"].get<double>();
    EXPECT_NEAR(nlohmann::json::parse(turns[i])["loss"].get<double>(), expected, 1e-5 * expected) << i;
  }
}

TEST_F(Run, AShortTryOfAConfigWithALongWarmUpRunsAndSaysSo) {
  EXPECT_THAT(run({"schedule.warmup_steps=50", "train.max_steps=20"}).ended(0).out,
              HasSubstr("warning: the run ends before the learning rate is warmed up"));
  const auto last = read_json_lines(path("run/metrics.jsonl")).back();
  EXPECT_DOUBLE_EQ(last["learning_rate"].get<double>(), 0.05 * 20 / 50);
}

TEST_F(Run, TheSameCommandAgainDoesNothing) {
  run().ended(0);
  const std::string before = read_text(path("run/metrics.jsonl"));
  EXPECT_THAT(run().ended(0).out, HasSubstr("is already finished: nothing to do"));
  EXPECT_EQ(read_text(path("run/metrics.jsonl")), before);
}

TEST_F(Run, AContinuedRunEqualsAnUninterruptedOneToTheBit) {
  run({"run.dir=whole"}).ended(0);
  // The schedule must be that of the whole run, so the first part ends by a signal-like cut: fewer steps,
  // constant rate.
  run({"run.dir=whole-constant", "schedule.kind=constant"}).ended(0);
  run({"run.dir=parts", "schedule.kind=constant", "train.max_steps=23"}).ended(0);
  EXPECT_THAT(run({"run.dir=parts", "schedule.kind=constant"}).ended(0).out,
              HasSubstr("continued from parts/checkpoints/step-00000023"));
  EXPECT_EQ(curve("parts"), curve("whole-constant"));
  EXPECT_EQ(state("parts", 60), state("whole-constant", 60));
  EXPECT_NE(state("parts", 60), state("whole", 60))
      << "another schedule gives another result, so the comparison means something";
}

TEST_F(Run, AKilledRunGoesOnExactly) {
  run({"run.dir=whole", "train.max_steps=3000", "checkpoint.every=200"}).ended(0);
  const Words options{"run.dir=killed", "train.max_steps=3000", "checkpoint.every=200"};
  for (int kill = 1; kill <= 3; ++kill) {
    Process process = start(options);
    const size_t lines = kill * 600u;
    if (!eventually([&] {
          return read_lines(path("killed/metrics.jsonl")).size() > lines ||
                 fs::exists(path("killed/finished.txt"));
        }))
      break;
    process.signal(SIGKILL);
    process.wait();
  }
  run(options).ended(0);
  EXPECT_EQ(curve("killed"), curve("whole"));
  EXPECT_EQ(state("killed", 3000), state("whole", 3000));
}

TEST_F(Run, ASignalSavesAndLeavesWith75) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    const std::string dir = "signal-" + std::to_string(signal);
    const Words options{"run.dir=" + dir, "train.max_steps=200000", "checkpoint.every=0", "evaluate.every=0"};
    Process process = start(options);
    ASSERT_TRUE(eventually([&] { return read_lines(path(dir + "/metrics.jsonl")).size() > 20; }));
    process.signal(signal);
    EXPECT_THAT(process.wait().ended(75).out, HasSubstr("saving at step"));
    const auto saved = checkpoints(dir);
    ASSERT_EQ(saved.size(), 1u);
    EXPECT_EQ(std::stoul(saved[0].substr(5)), read_lines(path(dir + "/metrics.jsonl")).size());
  }
}

TEST_F(Run, AConsoleThatGoesAwayDoesNotEndTheRun) {
  Words command = pipeline_command({"run", "train.toml"});
  command.insert(command.begin(), {"/bin/bash", "-c", "set -o pipefail; \"$@\" | true", "bash"});
  EXPECT_EQ(Process(command, folder()).wait().code, 0);
  EXPECT_EQ(read_lines(path("run/metrics.jsonl")).size(), 60u);
}

TEST_F(Run, ASecondSignalLeavesAtOnce) {
  // A task's `prepare` or a long step cannot be cut short; two signals together are as good as that.
  Process process = start({"train.max_steps=200000"});
  ASSERT_TRUE(eventually([&] { return read_lines(path("run/metrics.jsonl")).size() > 20; }));
  process.signal(SIGSTOP);
  process.signal(SIGINT);
  process.signal(SIGTERM);
  process.signal(SIGCONT);
  const Result result = process.wait();
  EXPECT_TRUE(result.code == 128 + SIGTERM || result.code == 128 + SIGINT) << result.code;
  EXPECT_THAT(result.err, HasSubstr("second signal: leaving at once"));
}

TEST_F(Run, AnotherOptionThatDecidesTheResultIsRefused) {
  run().ended(0);
  const Result result = run({"optimizer.lr=0.06"}).ended(2);
  EXPECT_THAT(result.err, HasSubstr("optimizer.lr"));
  EXPECT_THAT(result.err, HasSubstr("0.05"));
  EXPECT_THAT(result.err, HasSubstr("0.06"));
}

TEST_F(Run, AChangedRunGoesOnExactly) {
  const auto train = [&](const std::string& dir, const Words& more) {
    return Words{"run.dir=" + dir, "schedule.kind=constant", "checkpoint.every=0", "evaluate.every=0"} + more;
  };
  const Words named{"--change", "optimizer.lr=0.02", "train.max_steps=3000"};
  for (const char* dir : {"whole", "killed"}) run(train(dir, {"train.max_steps=20"})).ended(0);
  const Result whole = run(train("whole", named)).ended(0);
  EXPECT_THAT(whole.out, HasSubstr("changed after step 20: optimizer.lr = 0.02 (was 0.05)"));
  Process process = start(train("killed", named));
  EXPECT_TRUE(eventually([&] { return read_lines(path("killed/metrics.jsonl")).size() > 200; }));
  process.signal(SIGKILL);
  process.wait();
  // No checkpoint was due before, and the command no longer names what was changed.
  EXPECT_THAT(run(train("killed", {"train.max_steps=3000"})).ended(0).out,
              HasSubstr("optimizer.lr = 0.02, as changed after step 20 (train.toml:11: 0.05;"));
  EXPECT_EQ(curve("killed"), curve("whole"));
  EXPECT_EQ(state("killed", 3000), state("whole", 3000));
  EXPECT_EQ(read_json(path("killed/changes.json")).dump(),
            R"([{"before":"0.05","key":"optimizer.lr","now":"0.02","step":20}])");
  EXPECT_EQ(run(train("killed", named)).code, 0) << "named again it is nothing new";
  EXPECT_EQ(run(train("killed", {"train.max_steps=3001", "optimizer.lr=0.03"})).code, 2);
}

// --change in the first launch, which ends before a checkpoint, and for a stage that is yet to begin.
TEST_F(Run, AChangeFromTheBeginningStaysInForce) {
  write_text(path("train.toml"), kConfig + R"(
[[stage]]
name = "first"
train.max_steps = 1000000
[[stage]]
name = "second"
init_from = "first"
train.max_steps = 3
)");
  const Words as_ever{"checkpoint.every=0", "evaluate.every=0"};
  Process process =
      start(as_ever + Words{"--change", "optimizer.lr=0.02", "--change", "stage.second.optimizer.lr=0.03"});
  EXPECT_TRUE(eventually([&] { return !read_lines(path("run/first/metrics.jsonl")).empty(); }));
  process.signal(SIGKILL);
  process.wait();
  for (int launch = 0; launch < 2; ++launch) {  // without a checkpoint, and with one
    const Result result =
        run(as_ever + Words{"stage.first.train.max_steps=" + std::to_string(5 + launch)}).ended(0);
    EXPECT_THAT(result.out, HasSubstr("optimizer.lr = 0.02, as changed after step 0 (train.toml:11: 0.05;"));
    if (launch > 0) break;
    EXPECT_THAT(result.out, HasSubstr("optimizer.lr = 0.03, as changed after step 0 (train.toml:11: 0.05;"));
  }
  for (const auto& [stage, rate] : {std::pair("first", "0.02"), std::pair("second", "0.03")})
    EXPECT_EQ(read_json(path("run") / stage / "changes.json").dump(),
              R"([{"before":"0.05","key":"optimizer.lr","now":")" + std::string(rate) + R"(","step":0}])");
}

TEST_F(Run, ADivergedRunFailsAndKeepsItsLastGoodCheckpoint) {
  const Words each{"checkpoint.every=1", "checkpoint.keep=1"};
  const auto train = [&](const Words& more) { return run(more + each); };
  ASSERT_EQ(train({"train.max_steps=30"}).code, 0);
  const Result result = train({"train.max_steps=36", "--change", "optimizer.lr=1e30"}).ended(2);
  EXPECT_THAT(result.out, Not(HasSubstr("loss -nan")));
  for (const char* text : {"the update was skipped, in 4 steps in a row, from step 33 on",
                           "the evaluation after step 36 gave loss nan", ", in step 32\n",
                           "last good checkpoint: run/checkpoints/step-00000030\n"})
    EXPECT_THAT(result.err, HasSubstr(text));
  EXPECT_EQ(checkpoints("run"), (Words{"diverged-step-00000032", "step-00000030"}));
  EXPECT_FALSE(fs::exists(path("run/finished.txt")));
  const Result again = train({"train.max_steps=36"}).ended(2);
  EXPECT_THAT(again.err, HasSubstr("in an earlier launch the run has diverged: the gradient was not finite"));
  train({"train.max_steps=36", "--change", "optimizer.lr=0.01"}).ended(0);
  EXPECT_TRUE(fs::exists(path("run/finished.txt")));
  EXPECT_FALSE(fs::exists(path("run/diverged.txt")));

  const Result bounded = run({"--fresh", "optimizer.lr=1e30", "train.max_steps=3000",
                              "train.max_nonfinite_steps=5", "launch.max_restarts=2"})
                             .ended(2);
  EXPECT_THAT(
      bounded.err,
      HasSubstr("in 5 steps in a row, from step 3 on; train.max_nonfinite_steps = 5 ends the run here\n"));
  EXPECT_THAT(bounded.err, Not(HasSubstr("restart"))) << "it would end so again";
  EXPECT_THAT(bounded.err, HasSubstr("start over with --fresh and a lower optimizer.lr (it was 1e+30)"));
}

// The last update ruins the weights, so that no loss tells.
TEST_F(Run, WeightsThatAreNotFiniteAreNotSaved) {
  const Result result = run({"optimizer.lr=1e40", "train.clip_grad_norm=0", "train.max_steps=1",
                             "evaluate.at_end=false", "schedule.kind=constant"})
                            .ended(2);
  EXPECT_THAT(result.err, HasSubstr("the run has diverged: after step 1 weights are not finite: "));
  EXPECT_THAT(result.err, HasSubstr("last good checkpoint: none\n"));
  EXPECT_TRUE(checkpoints("run").empty());
}

TEST_F(Run, AStageAfterADivergedOneDoesNotBegin) {
  write_text(path("train.toml"), kConfig + R"(
[[stage]]
name = "first"
train.max_steps = 5
optimizer.lr = 1e30
[[stage]]
name = "second"
init_from = "first"
)");
  EXPECT_EQ(run().code, 2);
  const Result second = run({"--stage", "second"}).ended(2);
  EXPECT_THAT(second.err, HasSubstr("run/first did not come to its end: the run has diverged"));
  EXPECT_FALSE(fs::exists(path("run/second/metrics.jsonl")));
}

TEST_F(Run, FreshMovesTheOldRunAside) {
  run().ended(0);
  EXPECT_THAT(run({"--fresh", "optimizer.lr=0.06"}).ended(0).out,
              HasSubstr("the old run was moved aside to run.1"));
  EXPECT_TRUE(fs::exists(path("run.1/metrics.jsonl")));
}

TEST_F(Run, AFreshRunThatCannotBeginCostsNothing) {
  run().ended(0);
  const std::string before = state("run", 60);
  for (const char* mistake : {"task.model.features=0", "train.init_from=nowhere", "train.precision=fp8",
                              "evaluate.best_metric=typo"}) {
    const Result result = run({"--fresh", mistake});
    EXPECT_EQ(result.code, 2) << mistake << result.out;
    EXPECT_EQ(state("run", 60), before) << mistake;
    EXPECT_FALSE(fs::exists(path("run.1"))) << mistake;
  }
  EXPECT_THAT(run({"--fresh", "evaluate.best_metric=typo"}).out,
              HasSubstr("nothing was started, so the old run is back in run"));
  EXPECT_THAT(run().out, HasSubstr("is already finished"));
}

TEST_F(Run, AFinishedRunWithoutItsCheckpointsIsAnError) {
  run().ended(0);
  fs::remove_all(path("run/checkpoints"));
  fs::create_directory(path("run/checkpoints"));
  write_text(path("run/checkpoints/.DS_Store"), "a stranger");
  EXPECT_THAT(run().ended(0).out, HasSubstr("warning: its checkpoints are gone from run/checkpoints"));
  const Result longer = run({"train.max_steps=80"}).ended(2);
  EXPECT_THAT(
      longer.err,
      HasSubstr(
          "its checkpoints are gone from run/checkpoints: bring them back, or start over with --fresh"));
  EXPECT_EQ(read_lines(path("run/metrics.jsonl")).size(), 60u);
}

TEST_F(Run, DamagedRecordsAreNamed) {
  run().ended(0);
  write_text(path("run/metrics.jsonl"), "garbage\n" + read_text(path("run/metrics.jsonl")));
  const Result result = run({"train.max_steps=62"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr("run/metrics.jsonl: 1 unreadable line was dropped"));
  EXPECT_EQ(read_lines(path("run/metrics.jsonl")).size(), 62u);
  EXPECT_THAT(result.out, Not(HasSubstr("what was recorded")));

  fs::remove(path("run/metrics.jsonl"));
  EXPECT_THAT(run({"train.max_steps=64"}).out,
              HasSubstr("run/metrics.jsonl: has no step 62, after which the run goes on: what was recorded"));
}

TEST_F(Run, AnEndThatIsPassedAlreadyIsNamed) {
  run().ended(0);
  EXPECT_THAT(run({"train.max_steps=50"}).ended(0).out,
              HasSubstr("run is already at step 60, past the end of training at step 50: nothing to train"));
}

TEST_F(Run, ADamagedCheckpointIsNamedAndTheOneBeforeIsUsed) {
  run({"run.dir=whole", "schedule.kind=constant"}).ended(0);
  run({"schedule.kind=constant", "train.max_steps=45"}).ended(0);
  // Kept are 30, 40 (the best of the evaluations) and 45.
  const fs::path newest = path("run/checkpoints/step-00000045/state-00000-of-00001.safetensors");
  fs::resize_file(newest, fs::file_size(newest) - 3);
  const Result result = run({"schedule.kind=constant"}).ended(0);
  EXPECT_THAT(result.out,
              HasSubstr("run/checkpoints/step-00000045 is not used: state-00000-of-00001.safetensors: has "));
  EXPECT_THAT(result.out, HasSubstr("continued from run/checkpoints/step-00000040"));
  EXPECT_EQ(curve("run"), curve("whole"));
}

TEST_F(Run, WhereAllCheckpointsAreDamagedNothingIsStartedOverUnasked) {
  run({"train.max_steps=10"}).ended(0);
  const std::string before = read_text(path("run/metrics.jsonl"));
  fs::resize_file(path("run/checkpoints/step-00000010/state-00000-of-00001.safetensors"), 10);
  const Result result = run().ended(1);
  EXPECT_THAT(result.err, HasSubstr("none of its 1 checkpoint can be used"));
  EXPECT_THAT(result.err, HasSubstr("--fresh"));
  EXPECT_EQ(read_text(path("run/metrics.jsonl")), before);
  EXPECT_EQ(run({"--fresh"}).code, 0);
}

TEST_F(Run, ARunThatWasLengthenedAndKilledIsNotFinished) {
  run({"train.max_steps=20"}).ended(0);
  Process process = start({"train.max_steps=200000"});
  ASSERT_TRUE(eventually([&] { return read_lines(path("run/metrics.jsonl")).size() > 30; }));
  process.signal(SIGKILL);
  process.wait();
  EXPECT_THAT(run({"train.max_steps=20"}).out, Not(HasSubstr("already finished")));
}

TEST_F(Run, ATrailingSlashOfRunDirMakesNoDifference) {
  run({"run.dir=run/", "train.max_steps=5"}).ended(0);
  run({"run.dir=run/", "train.max_steps=5", "--fresh"}).ended(0);
  EXPECT_TRUE(fs::exists(path("run.1/metrics.jsonl")));
}

TEST_F(Run, WhatCannotBeEvaluatedIsSaidBeforeTraining) {
  const Result figure = run({"evaluate.best_metric=rougeL"}).ended(2);
  EXPECT_THAT(figure.err, HasSubstr("evaluate.best_metric=rougeL: task linear_regression has no such figure; "
                                    "it has loss, mean_absolute_error"));
  EXPECT_THAT(run({"task.data.val_samples=0", "run.dir=other"}).ended(2).err,
              HasSubstr("evaluate.every = 20: task linear_regression has no validation data"));
  const Result none = run({"task.data.val_samples=0", "run.dir=none", "evaluate.every=0"}).ended(0);
  EXPECT_THAT(none.out, HasSubstr("there is no validation data"));
}

TEST_F(Run, SettingsWithoutEffectAreNamed) {
  const Result result = run({"optimizer.beta1=0.8", "loader.group_window=4", "train.max_steps=2"}).ended(0);
  EXPECT_THAT(result.out, HasSubstr("optimizer.beta1 = 0.8 has no effect: optimizer.kind is \"sgd\""));
  EXPECT_THAT(result.out,
              HasSubstr("loader.group_window = 4 has no effect: loader.group_by_length is false"));
}

TEST_F(Run, TwoProcessesInOneFolderAreRefused) {
  Process process = start({"train.max_steps=200000"});
  ASSERT_TRUE(eventually([&] { return fs::exists(path("run/metrics.jsonl")); }));
  EXPECT_THAT(run().ended(2).err, HasSubstr("is in use by process"));
  process.signal(SIGKILL);
}

TEST_F(Run, AccumulationDoesNotChangeTheCurve) {
  run({"run.dir=a", "train.micro_batch=16"}).ended(0);
  run({"run.dir=b", "train.micro_batch=1"}).ended(0);
  const auto a = read_lines(path("a/metrics.jsonl")), b = read_lines(path("b/metrics.jsonl"));
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = nlohmann::json::parse(a[i])["loss"], y = nlohmann::json::parse(b[i])["loss"];
    EXPECT_NEAR(x, y, 1e-5 * std::abs(x)) << "step " << i + 1;
  }
}

TEST_F(Run, EvaluatePredictAndExport) {
  run().ended(0);
  const Result evaluate = call("evaluate").ended(0);
  EXPECT_THAT(evaluate.out, HasSubstr("\nprocesses  1; this is rank 0"));
  const auto figures = read_json(path("run/evaluation-test.json"));
  EXPECT_TRUE(figures["figures"].contains("loss"));
  const Result predict = call("predict", {"--checkpoint", "last", "--output", "answers.csv"});
  EXPECT_EQ(predict.code, 0) << predict.err;
  const auto rows = read_lines(path("answers.csv"));
  ASSERT_GT(rows.size(), 2u);
  EXPECT_THAT(rows[0], testing::StartsWith("id,"));
  EXPECT_THAT(rows[1], testing::StartsWith("point-0,"));
  const Result twice = call("predict", {"--checkpoint", "last", "--output", "again.csv"});
  EXPECT_EQ(twice.code, 0);
  EXPECT_EQ(read_text(path("again.csv")), read_text(path("answers.csv")));
  const Result other = call("evaluate", {"run.dir=other", "--checkpoint", "run"}).ended(0);
  EXPECT_TRUE(fs::exists(path("other/evaluation-test.json")));
  EXPECT_EQ(run({"run.dir=other"}).code, 0) << "a verb's folder can be trained in later";
  const Result nowhere = call("evaluate", {"--output", "train.toml/x.json"}).ended(2);
  EXPECT_THAT(nowhere.err, HasSubstr("train.toml"));
}

TEST_F(Run, APlaceThatCannotTakeTheResultsIsNamedBeforeTheWork) {
  run().ended(0);
  fs::create_directory(path("one"));
  for (const char* verb : {"predict", "evaluate", "export"}) {
    const auto at = [&](const std::string& output) {
      const Result result = pipeline({verb, "train.toml", "--output", output});
      EXPECT_EQ(result.code, 2) << verb << result.out << result.err;
      EXPECT_THAT(result.out, Not(HasSubstr("linear_regression of run/checkpoints")))
          << "no weights are loaded for nothing";
      return result.err;
    };
    const std::string below_proc = at("/proc/x.csv");
    EXPECT_THAT(below_proc, HasSubstr("error: /proc/x.csv"));
    EXPECT_THAT(below_proc,
                HasSubstr("cannot be written: No such file or directory: choose another --output"));
    EXPECT_THAT(at("train.toml/x.csv"), HasSubstr("choose another --output"));
    if (verb == std::string("export")) continue;
    EXPECT_EQ(at("one"), "error: one: cannot be written: Is a directory: choose another --output\n");
    EXPECT_EQ(at("/dev/null"),
              "error: /dev/null: cannot be written: is no plain file: choose another --output\n");
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder())) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("train.toml", "run", "one")) << "nothing is left behind";
  EXPECT_TRUE(fs::is_empty(path("one")));
}

TEST_F(Run, ACopyOfARunIsPooledWithoutADoubtAndWithOtherOptionsTheyAreNamed) {
  write_text(path("train.toml"), kConfig + R"(
[[stage]]
name = "learn"
[[stage]]
name = "test"
kind = "evaluate"
init_from = "learn"
[[stage]]
name = "all"
kind = "pool"
)");
  run().ended(0);
  fs::copy(path("run"), path("copy"), fs::copy_options::recursive);
  write_text(path("train.toml"), "# one more line\n" + read_text(path("train.toml")));
  const Result copy = run({"run.dir=copy", "--stage", "all"}).ended(0);
  EXPECT_THAT(copy.out, HasSubstr("pooled "));
  EXPECT_THAT(copy.out, Not(HasSubstr("other options than")));
  const Result other = run({"run.dir=copy", "--stage", "all", "task.data.noise=0.5"}).ended(0);
  EXPECT_THAT(other.out, HasSubstr("copy/test was made with other options than the stage 'test' has now "
                                   "(task.data.noise was 0.0 and is 0.5): run that stage again"));
}

// Predictions with a file a sample, of test sets of several sizes.
class SideFilesOfRuns : public Run {
 protected:
  Words command(int samples, int processes = 1) const {
    return {"predict", "train.toml", "task.predict.files=true",
            "task.data.test_samples=" + std::to_string(samples),
            "launch.processes=" + std::to_string(processes)};
  }
  // The side files of submission.csv, without what the core keeps of them.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path("run/submission-files")))
      if (const std::string name = entry.path().filename(); !name.starts_with('.')) names.push_back(name);
    std::sort(names.begin(), names.end());
    return names;
  }
  // The side files of the first `samples` samples.
  static Words files_of(int samples) {
    std::vector<std::string> names;
    for (int i = 0; i < samples; ++i) names.push_back("point-" + std::to_string(i) + ".txt");
    std::sort(names.begin(), names.end());
    return names;
  }
  void predict(int samples, int processes = 1) const {
    pipeline(command(samples, processes)).ended(0);
    EXPECT_EQ(read_lines(path("run/submission.csv")).size(), samples + 1u);
    EXPECT_EQ(files(), files_of(samples));
  }
  // Kills a prediction when at least one batch is done.
  void kill_prediction(int samples) const {
    Process process(pipeline_command(command(samples)), folder());
    const auto has_begun = [&] {
      const auto progress =
          nlohmann::json::parse(read_text(path("run/submission.csv.progress")), nullptr, false);
      return progress.is_object() && progress["samples"].get<int>() > 0;
    };
    ASSERT_TRUE(eventually(has_begun));
    process.signal(SIGKILL);
    process.wait();
  }
};

TEST_F(SideFilesOfRuns, OfAnEarlierPredictionDoNotStayBesideTheNewOnes) {
  run().ended(0);
  predict(37);
  predict(9);
  predict(21, 3);
  predict(6, 2);
  write_text(path("run/submission-files/notes.txt"), "mine");
  EXPECT_EQ(pipeline(command(3)).code, 0);
  EXPECT_EQ(read_text(path("run/submission-files/notes.txt")), "mine");
  fs::remove(path("run/submission-files/notes.txt"));
  EXPECT_EQ(files(), files_of(3));
}

TEST_F(SideFilesOfRuns, OfAKilledPredictionStayForItAloneToGoOn) {
  run().ended(0);
  predict(9);
  constexpr int kMany = 3000;
  kill_prediction(kMany);
  EXPECT_EQ(read_lines(path("run/submission.csv")).size(), 10u) << "it was killed in time";
  const auto after_kill = files();
  EXPECT_GT(after_kill.size(), 3u);
  EXPECT_THAT(pipeline(command(kMany)).ended(0).out, HasSubstr("by an earlier process"));
  EXPECT_EQ(files(), files_of(kMany));
  kill_prediction(kMany - 1);
  predict(12);  // with other data
}

TEST_F(Run, StagesRunInOrderAndOnce) {
  write_text(path("train.toml"), kConfig + R"(
[[stage]]
name = "first"
train.max_steps = 20
[[stage]]
name = "second"
init_from = "first"
train.max_steps = 10
[[stage]]
name = "figures"
kind = "evaluate"
init_from = "second"
)");
  EXPECT_THAT(run().ended(0).out, HasSubstr("weights from run/first/checkpoints/step-00000020"));
  EXPECT_TRUE(fs::exists(path("run/figures/evaluation-test.json")));
  const double first_end = read_json_lines(path("run/first/metrics.jsonl")).back()["loss"];
  const double second_start = read_json_lines(path("run/second/metrics.jsonl")).front()["loss"];
  EXPECT_LT(second_start, 2 * first_end + 0.1);
  const Result again = run().ended(0);
  EXPECT_THAT(again.out, Not(HasSubstr("step 1/")));
  EXPECT_THAT(again.out, HasSubstr("run/figures is already finished"));
  const Result changed = run({"--change", "optimizer.lr=0.01"}).ended(0);
  EXPECT_THAT(changed.out, HasSubstr("--change optimizer.lr=0.01 has no effect: no step is left to do"));
  EXPECT_THAT(changed.out, HasSubstr("run/figures is already finished"));

  const Result by_folder = tests::pipeline({"run", ".."}, path("run/second")).ended(0);
  EXPECT_THAT(by_folder.out, HasSubstr("run/second is already finished"));
  EXPECT_THAT(by_folder.out, HasSubstr("run/figures is already finished"));
  const Result stage = pipeline({"run", "run/first"}).ended(0);
  EXPECT_THAT(stage.out, HasSubstr("run/first is already finished"));
  EXPECT_THAT(stage.out, Not(HasSubstr("run/second")));
  EXPECT_THAT(run({"evaluate.split=val"}).ended(0).out,
              HasSubstr("run/figures was made with other options or weights: repeating it"));
  EXPECT_TRUE(fs::exists(path("run/figures/evaluation-val.json")));
  const Result longer = run({"stage.first.train.max_steps=30"}).ended(0);
  EXPECT_THAT(
      longer.out,
      testing::ContainsRegex(
          "run/second began from run/first/checkpoints/step-00000020 \\(manifest [0-9a-f]{8}\\), and now "
          "that would be run/first/checkpoints/step-00000030 \\(manifest [0-9a-f]{8}\\): train it again"));
  EXPECT_EQ(run({"--stage", "second", "--fresh", "optimizer.lr=0.01"}).code, 0);
  EXPECT_THAT(run({"--stage", "figures"}).ended(0).out, HasSubstr("repeating it"))
      << "other weights under the name that they had before";
}

TEST_F(Run, ALaunchThatIsRefusedLeavesTheRunAsItIs) {
  write_text(path("train.toml"), kConfig + R"(
[[stage]]
name = "first"
[[stage]]
name = "second"
init_from = "first"
train.max_steps = 10
)");
  run().ended(0);
  const std::string before = read_text(path("run/config.toml"));
  for (const char* refused : {"optimizer.lr=0.06", "stage.second.optimizer.lr=0.06"}) {
    EXPECT_THAT(run({refused, "stage.first.train.max_steps=80"}).ended(2).err,
                HasSubstr("optimizer.lr=0.06: was 0.05 in run/"));
  }
  write_text(path("run/second/diverged.txt"), "the run has diverged");
  EXPECT_EQ(run({"stage.second.train.max_steps=20"}).code, 2);
  EXPECT_EQ(read_text(path("run/config.toml")), before);
  EXPECT_EQ(read_lines(path("run/first/metrics.jsonl")).size(), 60u) << "nothing was trained";
}

TEST_F(Run, AMistakeInALaterStageShowsBeforeTheFirstTrains) {
  write_text(path("train.toml"), kConfig + R"(
[[stage]]
name = "first"
[[stage]]
name = "second"
init_from = "first"
task.model.featurez = 2
)");
  EXPECT_THAT(run().ended(2).err, HasSubstr("featurez"));
  EXPECT_FALSE(fs::exists(path("run/first/metrics.jsonl")));
  write_text(path("train.toml"), kConfig + R"(
[[stage]]
name = "second"
init_from = "nowhere"
)");
  EXPECT_THAT(run().err, HasSubstr("nowhere"));
  write_text(path("train.toml"), kConfig + R"(
[[stage]]
name = "first"
[[stage]]
name = "second"
kind = "evaluate"
)");
  for (const char* verb : {"check", "run"}) {
    EXPECT_THAT(pipeline({verb, "train.toml"}).ended(2).err,
                HasSubstr("stage.init_from: stage 'second' (kind evaluate) needs weights"));
  }
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(Run, WrongInputIsNamedWithExitCode2) {
  const auto problem = [&](Words arguments) {
    const Result result = run(std::move(arguments)).ended(2);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_EQ(problem({"train.max_stepz=3"}),
            "error: --set train.max_stepz=3: unknown key: did you mean train.max_steps?\n");
  EXPECT_EQ(problem({"train.max_stepz=3", "task.model.featurez=3", "tsk.x=1"}),
            "error: --set train.max_stepz=3: unknown key: did you mean train.max_steps?\n"
            "error: --set tsk.x=1: unknown table: did you mean [task]?\n"
            "error: --set task.model.featurez=3: unknown key: did you mean task.model.features?\n");
  EXPECT_THAT(
      problem({"strategy.plugin=plain_sdg"}),
      HasSubstr(
          "error: --set strategy.plugin=plain_sdg: no strategy of this name; did you mean \"plain_sgd\"?"));
  EXPECT_THAT(problem({"train.global_batch=12", "train.micro_batch=8"}),
              HasSubstr("use train.micro_batch = 6 or 12"));
  EXPECT_THAT(problem({"run.device=cuda"}), HasSubstr("run.device"));
  EXPECT_EQ(problem({"--set"}),
            "error: pipeline run: --set: 1 required KEY=VALUE missing: see pipeline run --help\n");
  EXPECT_THAT(problem({"--nodes", "2"}), HasSubstr("--node-rank"));
  EXPECT_THAT(problem({"train.global_batch=4", "launch.processes=2"}), HasSubstr("train.micro_batch = 2"));
  EXPECT_THAT(problem({"strategy.zero_stage=3"}), HasSubstr("strategy.zero_stage=3: unknown key"));
  EXPECT_THAT(problem({"backend.timeout_secnds=5"}), HasSubstr("backend.timeout_secnds"));
  EXPECT_THAT(problem({"train.max_steps=unset"}), HasSubstr("nothing says when training ends"));
  EXPECT_THAT(problem({"run.dir=\"\"", "run.name=.."}), HasSubstr("run.name=..: must be a plain name"));
  const std::string long_name(250, 'x');
  EXPECT_THAT(problem({"run.dir=" + long_name}),
              HasSubstr(long_name + ": its name has 250 bytes: must have at most 213"));
  EXPECT_THAT(problem({"run.dir=" + long_name + long_name + "/run"}),
              HasSubstr("a folder's name has 500 bytes: must have at most 255"));
  EXPECT_THAT(problem({"--nonsense"}), HasSubstr("--nonsense"));
  EXPECT_EQ(
      problem({"--master-port", "99999"}),
      "error: pipeline run: --master-port: Value 99999 not in range 1 to 65535: see pipeline run --help\n");
  EXPECT_EQ(pipeline({"run"}).err, "error: pipeline run: FILE is required: see pipeline run --help\n");
  EXPECT_FALSE(fs::exists(path("run"))) << "no folder is made for a run that cannot begin";
  EXPECT_EQ(pipeline({"status", std::string(300, 'x')}).err,
            "error: " + std::string(300, 'x') + ": there is no such folder\n");
  EXPECT_THAT(pipeline({"rnu"}).ended(2).err, HasSubstr("did you mean 'run'?"));
}

TEST_F(Run, VerbsAndOptionsOfOtherToolsAreTranslated) {
  const auto answer = [&](const Words& words) {
    return Process(pipeline_command({}) + words, folder()).wait().ended(2).err;
  };
  for (const auto& [verb, ours] : {std::pair{"train", "run"},
                                   {"fit", "run"},
                                   {"resume", "run, which continues the run that it began"},
                                   {"test", "evaluate"},
                                   {"generate", "predict"}})
    EXPECT_THAT(answer({verb}), HasSubstr(std::string("': write pipeline ") + ours + "; `pipeline --help`"));
  EXPECT_THAT(answer({"train.toml"}), HasSubstr("a verb comes first: pipeline run train.toml"));

  const std::string takes = "pipeline takes settings as --set ";
  for (const auto& [words, ours] : std::vector<std::pair<Words, std::string>>{
           {{"--max_steps", "3"}, takes + "train.max_steps=3\n"},
           {{"--max-steps=3"}, takes + "train.max_steps=3\n"},
           {{"train.max_steps=3"}, takes + "train.max_steps=3\n"},
           {{"--seed", "1"}, takes + "run.seed=1\n"},
           {{"--trainer.max_steps=3"}, takes + "train.max_steps=3\n"},
           {{"--every", "3"}, takes + "KEY=VALUE: evaluate.every or checkpoint.every\n"},
           {{"--epochs"}, takes + "train.max_epochs=VALUE\n"},
           {{"--nproc_per_node", "2"}, takes + "launch.processes=2, per host\n"},
           {{"--batch-size", "8"}, takes + "KEY=VALUE: train.global_batch (samples"},
           {{"--max_stpes", "3"}, takes + "KEY=VALUE: did you mean train.max_steps?\n"},
           {{"--epohcs", "3"}, takes + "KEY=VALUE: if epochs is meant, write train.max_epochs\n"},
           {{"--model", "x"}, takes + "KEY=VALUE: the keys in [task.language] are in `pipeline explain`\n"},
           {{"--config", "x"}, "the file comes without an option, right behind the verb\n"},
           {{"--resume"}, "the same command continues the run in run.dir by itself"},
           {{"--zero_grad"}, "leave it out: gradients are always cleared"},
           {{"--node_rank", "1"}, "did you mean --node-rank?\n"},
           {{"--plug", "x"}, "did you mean --plugin-path?\n"},
           {{"--freesh"}, "did you mean --fresh?\n"}}) {
    const std::string option = words[0].substr(0, words[0].find('='));
    EXPECT_THAT(answer(Words{"run", "train.toml"} + words), HasSubstr("error: " + option + ": " + ours));
  }
  EXPECT_EQ(answer({"--max_steps", "3"}),
            "error: --max_steps: " + takes +
                "train.max_steps=3; a verb and the file come first: pipeline run FILE.toml\n");
  EXPECT_EQ(answer({"report", "run", "--max_steps", "3"}),
            "error: --max_steps: unknown option; `pipeline report --help` lists them\n");
  EXPECT_THAT(answer({"predict", "--config", "train.toml"}), HasSubstr("the file comes without an option"));
}

TEST_F(Run, AnInheritedStartIsTakenBackByTheEmptyString) {
  std::string base = kConfig;
  base.insert(base.find("max_steps"), "init_from = \"pretrained\"\n");
  write_text(path("base.toml"), base);
  write_text(path("train.toml"), "extends = \"base.toml\"\n");
  EXPECT_THAT(run().ended(2).err, HasSubstr("there is no folder pretrained"));
  const Result unset = run({"train.init_from=unset"}).ended(2);
  EXPECT_EQ(unset.err,
            "error: --set train.init_from=unset: there is no folder unset: to start from fresh weights write "
            "\"\"\n");
  EXPECT_THAT(run({"train.init_from=\"\"", "train.max_steps=1"}).ended(0).out,
              HasSubstr("fresh weights (run.seed 0)"));
  write_text(path("train.toml"), "extends = \"base.toml\"\n[train]\ninit_from = \"\"\nmax_steps = 1\n");
  EXPECT_THAT(run({"run.dir=other"}).ended(0).out, HasSubstr("fresh weights (run.seed 0)"));
}

TEST_F(Run, UnboundedTrainingDataAreRefused) {
  const Result result =
      run({"plugins.paths=[\"" PIPELINE_BUILD_DIR "/tests/zoo\"]", "task.plugin=endless_train"}).ended(2);
  EXPECT_EQ(result.err,
            "error: task endless_train has unbounded training data, which this version cannot train on: use "
            "a task or task option with a fixed number of samples\n");
}

// A disk of its own that is full after a few checkpoints.
class SmallDisk {
 public:
  explicit SmallDisk(const fs::path& folder) : folder_(folder) {
    fs::create_directories(folder);
    mounted_ = ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=96k") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }

 private:
  fs::path folder_;
  bool mounted_ = false;
};

TEST_F(Run, AFullDiskIsSaidAndThePreviousCheckpointStays) {
  const SmallDisk disk(path("disk"));
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system needs root";
  const Words options{"run.dir=disk/run", "checkpoint.keep=0", "checkpoint.every=1", "evaluate.every=0",
                      "evaluate.at_end=false"};
  const Result result = run(options);
  EXPECT_EQ(result.code, 1) << "the last checkpoint could not be written";
  EXPECT_THAT(result.out, HasSubstr("no checkpoint was written: "));
  EXPECT_THAT(result.out, HasSubstr("the one before is untouched, training goes on"));
  EXPECT_THAT(result.out, HasSubstr("step 60/60"));
  EXPECT_THAT(result.err, HasSubstr("step-00000060: needs "));
  const auto saved = checkpoints("disk/run");
  ASSERT_FALSE(saved.empty());
  EXPECT_LT(saved.size(), 60u);

  const SmallDisk other(path("other"));
  Words stop = options;
  stop.insert(stop.end(), {"run.dir=other/run", "checkpoint.on_full_disk=stop"});
  const Result stopped = run(stop).ended(1);
  EXPECT_THAT(stopped.err, HasSubstr("make room, lower checkpoint.keep, or move run.dir to another disk"));
  EXPECT_THAT(stopped.out, Not(HasSubstr("step 60/60")));
}

TEST_F(Run, OutOfMemoryEndsInOneErrorWithWhatHelps) {
#ifdef PIPELINE_SANITIZED
  GTEST_SKIP() << "sanitizers map terabytes of address space, so it cannot be limited";
#endif
  const auto run_in = [&](int kib, Words arguments) {
    Words command = pipeline_command(std::move(arguments));
    command.insert(command.begin(),
                   {"/bin/sh", "-c", "ulimit -v " + std::to_string(kib) + " && exec \"$@\"", "sh"});
    return Process(command, folder()).wait();
  };
  const Result anywhere = run_in(60000, {"check", "train.toml"});  // before there is anything to advise
  EXPECT_EQ(anywhere.code, 1);
  EXPECT_THAT(anywhere.err, testing::StartsWith("error: out of memory on the host: "));
  const Result result =
      run_in(2000000, {"run", "train.toml", "task.model.features=4096", "task.data.samples=1000000",
                       "train.global_batch=1000000", "train.micro_batch=1000000"})
          .ended(1);
  EXPECT_THAT(result.err, HasSubstr("out of memory on the host while "));
  EXPECT_THAT(result.err,
              HasSubstr("train.micro_batch = 500000 (the global batch stays 1000000; what is learnt differs "
                        "by rounding, and by what dropout draws for each micro-batch)"));
  EXPECT_THAT(result.err, HasSubstr("train.activation_checkpointing = true"));
}

// The host has room for all 16 samples.
TEST_F(Run, AnAutomaticMicroBatchGivesTheBitsOfTheSameNumber) {
  const Result written = run({"train.micro_batch=16", "run.dir=written"}).ended(0);
  const Result found = run({"train.micro_batch=auto"}).ended(0);
  EXPECT_THAT(found.out, HasSubstr("micro-batch 16, found for \"auto\": "));
  EXPECT_THAT(found.out, HasSubstr("warning: run.reproducible = true: where memory is another, "));
  EXPECT_EQ(curve("run"), curve("written"));
  EXPECT_EQ(state("run", 60), state("written", 60));
  size_t times = 0;  // the trial's plugins say what the run's say
  for (size_t at = 0; (at = found.out.find("4 features, 256 samples", at)) != std::string::npos; ++at)
    ++times;
  EXPECT_EQ(times, 1u);

  const Result finished = run({"train.micro_batch=auto"});
  EXPECT_THAT(finished.out, HasSubstr("is already finished"));
  EXPECT_THAT(run({"train.micro_batch=auto", "train.accumulation_steps=2"}).ended(2).err,
              HasSubstr("is given together with train.micro_batch"));
}

TEST_F(Run, MoreThreadsThanCoresAreWarnedOf) {
  EXPECT_THAT(run({"launch.threads=4096", "train.max_steps=1"}).ended(0).out,
              HasSubstr("warning: launch.threads = 4096: this process has "));
}

TEST(Explain, KnowsPluginsAndTablesOfTheCore) {
  const Result table = pipeline({"explain", "checkpoint"}).ended(0);
  EXPECT_THAT(table.out, testing::StartsWith("[checkpoint]\n"));
  EXPECT_THAT(table.out, HasSubstr("on_full_disk"));
  EXPECT_THAT(table.out, Not(HasSubstr("max_steps")));
  EXPECT_THAT(pipeline({"explain", "linear_regression"}).out, testing::StartsWith("task linear_regression "));
  EXPECT_EQ(pipeline({"explain", "chekpoint"}).ended(2).err,
            "error: no plugin or core table is called 'chekpoint': did you mean 'checkpoint'?\n");
}

TEST(Help, EveryVerbHasHelpWithAnExample) {
  for (const char* verb :
       {"run", "evaluate", "predict", "export", "check", "explain", "plugins", "check-plugin", "devices"}) {
    EXPECT_THAT(pipeline({verb, "--help"}).ended(0).out, HasSubstr("Example")) << verb;
  }
}

}  // namespace
}  // namespace pipeline::tests
