// Schedules and ends of training as a user has them: a stable part with several decays, an early end.

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "core/safetensors/file.hpp"
#include "tests/e2e/small_job.hpp"

namespace pipeline::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ScheduleRun : public testing::Test, public SmallJob {
 protected:
  Result run(const std::string& dir, const Words& sets) const {
    return call("run", Words{"run.dir=" + dir} + sets);
  }
  std::vector<std::string> tail(const std::string& dir, size_t from) const {
    std::vector<std::string> all = curve(dir);
    return {all.begin() + static_cast<std::ptrdiff_t>(std::min(from, all.size())), all.end()};
  }
};

const Words kWsd{"schedule.kind=wsd", "schedule.warmup_steps=2", "schedule.decay_steps=4"};
const std::string kStep = "run/checkpoints/step-000000";
const Words kStable{"schedule.kind=constant", "schedule.warmup_steps=2"};

// The decay begins from any checkpoint of the stable part, in a run of its own and under any strategy, and
// has the bits of one run with both parts.
TEST_F(ScheduleRun, ADecayBranchesOffFromTheStablePart) {
  run("whole", kWsd).ended(0);
  const Result stable = run("stable", kStable + Words{"train.max_steps=10", "checkpoint.every=4"}).ended(0);
  const Words branch =
      kWsd + Words{"train.init_from=stable/checkpoints/step-00000008", "train.init_state=true"};
  const Result one = run("one", branch).ended(0);
  EXPECT_THAT(one.out + one.err, HasSubstr("after step 8: schedule.kind = \"wsd\" (was \"constant\")"));
  EXPECT_EQ(tail("one", 0), tail("whole", 8));
  EXPECT_EQ(tail("one", 0).size(), 4u);
  for (const Words& strategy : {Words{"strategy.plugin=ddp"}, {"strategy.plugin=sharded"}}) {
    const std::string dir = strategy[0].substr(strategy[0].find('=') + 1);
    run(dir, branch + strategy + Words{"launch.processes=2"}).ended(0);
    EXPECT_EQ(tail(dir, 0), tail("whole", 8)) << dir;
  }
  // A branch goes on from its own checkpoints, and ends once.
  run("cut", branch + Words{"train.max_steps=12", "train.max_seconds=1e-9"}).ended(0);
  run("cut", branch).ended(0);
  EXPECT_EQ(tail("cut", 0), tail("whole", 8));
  EXPECT_THAT(run("one", branch).err + run("one", branch).out, HasSubstr("is already finished"));
}

TEST_F(ScheduleRun, WhatABranchMustHaveInCommonIsNamed) {
  run("stable", kStable + Words{"train.max_steps=4"}).ended(0);
  const Words branch{"train.init_from=stable", "train.init_state=true"};
  const auto refused = [&](const Words& more) { return run("branch", branch + more).ended(2).err; };
  EXPECT_THAT(refused({"run.seed=7"}), HasSubstr("run.seed=7: was 0 in stable/checkpoints/step-00000004; "
                                                 "with train.init_state it must be the same: write 0"));
  EXPECT_THAT(refused({"optimizer.kind=sgd"}), HasSubstr("with train.init_state it must be the same"));
  EXPECT_THAT(refused({"train.max_steps=4"}), HasSubstr("is at step 4 already, and training ends at step 4"));
  EXPECT_THAT(run("branch", {"train.init_state=true"}).err,
              HasSubstr("train.init_state=true: needs train.init_from = a run or a checkpoint of ours, and "
                        "that is not set"));
}

// With a learning rate of 0 nothing gets better.
TEST_F(ScheduleRun, EndsEarlyWithoutABetterFigure) {
  const Words patient{"optimizer.lr=0.0", "evaluate.every=2", "evaluate.patience=2"};
  const Result ended = run("run", patient).ended(0);
  const std::string text = "2 evaluations in a row gave no better loss than ";
  EXPECT_THAT(ended.out + ended.err, HasSubstr("ended early: " + text));
  EXPECT_EQ(curve("run").size(), 6u);
  const json summary = read_json(path("run/summary.json"));
  EXPECT_EQ(summary["finished"], true);
  EXPECT_THAT(summary["ended_early"].get<std::string>(), HasSubstr(text));
  EXPECT_THAT(run("run", patient).out + run("run", patient).err, HasSubstr("is already finished"));
  // The count of such evaluations is kept: a run that is stopped between two of them ends at the same step.
  run("cut", patient + Words{"train.max_steps=5"}).ended(0);
  run("cut", patient).ended(0);
  EXPECT_EQ(curve("cut"), curve("run"));
  // With more patience the run goes on.
  run("run", {"optimizer.lr=0.0", "evaluate.every=2", "evaluate.patience=3"}).ended(0);
  EXPECT_EQ(curve("run").size(), 8u);
  // A gain that is too small is none.
  run("small", {"evaluate.every=2", "evaluate.patience=1", "evaluate.min_delta=100.0"}).ended(0);
  EXPECT_EQ(curve("small").size(), 4u);
  EXPECT_THAT(run("never", {"evaluate.every=0", "evaluate.patience=1"}).err,
              HasSubstr("evaluate.patience=1: nothing is evaluated during training: set evaluate.every"));
}

// --ema evaluates and exports the average, which is kept under every strategy, and by checkpoints.
TEST_F(ScheduleRun, AMovingAverageOfWeightsIsKept) {
  const Words ema{"optimizer.ema_decay=0.8", "optimizer.ema_every=2"};
  run("run", ema).ended(0);
  const auto figure = [&](const std::string& dir, const Words& more) {
    const Words all{"--checkpoint", "last", "--split", "val", "--output", "figures.json", "run.dir=" + dir};
    call("evaluate", all + ema + more).ended(0);
    return read_json(path("figures.json"));
  };
  const json averaged = figure("run", {"--ema"});
  EXPECT_EQ(averaged["checkpoint"], "run/checkpoints/step-00000012, moving average");
  EXPECT_NE(averaged["figures"]["loss"], figure("run", {})["figures"]["loss"]);
  run("cut", ema + Words{"train.max_steps=7"}).ended(0);
  ASSERT_EQ(
      run("cut", ema + Words{"strategy.plugin=sharded", "strategy.zero_stage=3", "launch.processes=2"}).code,
      0);
  EXPECT_EQ(figure("cut", {"--ema"})["figures"], averaged["figures"]);
  EXPECT_EQ(curve("cut"), curve("run"));
  run("plain", {"train.max_steps=2"}).ended(0);
  EXPECT_THAT(call("export", {"--ema", "run.dir=plain", "--output", "x"}).err,
              HasSubstr("has no moving average: train with optimizer.ema_decay"));
}

// A run's own evaluations may be of the average, which changes nothing of its training.
TEST_F(ScheduleRun, AMovingAverageIsEvaluatedDuringTraining) {
  const Words plain{"optimizer.ema_decay=0.8", "evaluate.every=6"}, ema = plain + Words{"evaluate.ema=true"};
  const auto losses = [&](const std::string& dir) {
    std::vector<double> all;
    for (const std::string& line : read_lines(path(dir + "/eval.jsonl")))
      all.push_back(json::parse(line)["loss"]);
    return all;
  };
  run("plain", plain).ended(0);
  const Result averaged = run("run", ema).ended(0);
  EXPECT_THAT(averaged.out + averaged.err, HasSubstr("evaluation after step 6, moving average:"));
  EXPECT_EQ(curve("run"), curve("plain"));
  EXPECT_NE(losses("run"), losses("plain"));
  Words one{"--checkpoint", "last", "--split", "val", "--output", "f.json", "--ema", "run.dir=run"};
  call("evaluate", one).ended(0);
  EXPECT_EQ(read_json(path("f.json"))["figures"]["loss"], losses("run").back());
  for (const char* stage : {"1", "2", "3"}) {
    const std::string dir = std::string("sharded") + stage;
    run(dir, ema + Words{"strategy.plugin=sharded", "launch.processes=2",
                         std::string("strategy.zero_stage=") + stage})
        .ended(0);
    EXPECT_EQ(losses(dir), losses("run")) << dir;
    EXPECT_EQ(curve(dir), curve("run")) << dir;
  }
  EXPECT_THAT(run("none", {"evaluate.every=6", "evaluate.ema=true"}).err,
              HasSubstr("evaluate.ema=true: no moving average is kept: set optimizer.ema_decay"));
}

// Moments go through checkpoints, which hold 16 bits as they are and 8 bits as float32, and over other
// layouts, groups among them.
TEST_F(ScheduleRun, MomentsInFewerBitsGoOnUnderOtherLayouts) {
  for (const std::string bits : {"16", "8"}) {
    const Words base{"optimizer.state_bits=" + bits, "optimizer.ema_decay=0.9", "train.clip_grad_value=0.05"};
    const std::string whole = "whole" + bits, moved = "moved" + bits;
    const Result all = run(whole, base).ended(0);
    EXPECT_THAT(all.out + all.err, HasSubstr(bits == "16" ? "optimizer bf16" : "optimizer uint8"));
    const Words groups{"strategy.plugin=sharded", "strategy.shard_group=2", "launch.processes=4"};
    const std::vector<Words> ways{groups + Words{"strategy.zero_stage=3", "train.max_steps=4"},
                                  {"strategy.plugin=ddp", "launch.processes=2", "train.max_steps=7"},
                                  groups + Words{"strategy.zero_stage=1", "train.max_steps=10"},
                                  {}};
    for (const Words& way : ways) {
      run(moved, base + way).ended(0);
    }
    EXPECT_EQ(curve(moved), curve(whole)) << bits;
  }
  EXPECT_NE(curve("whole16"), curve("whole8"));
  EXPECT_THAT(run("x", {"optimizer.state_bits=12"}).err,
              HasSubstr("optimizer.state_bits=12: must be 32, 16 or 8"));
  EXPECT_THAT(run("x", {"train.clip_grad_value=0.1", "train.clip_grad_norm=2"}).err,
              HasSubstr("train.clip_grad_norm is set, too: leave one of the two out"));
  EXPECT_THAT(run("x", {"strategy.plugin=sharded", "strategy.shard_group=hosts"}).err,
              HasSubstr("must be \"all\", \"host\" or a number of processes"));
}

// A rule from outside the tree, under every strategy and over a stop.
TEST_F(ScheduleRun, ARuleComesAsAPlugin) {
  // rule_of_matrices sees matrices whole, and leaves all else to AdamW.
  const std::string zoo = "plugins.paths=[\"" PIPELINE_BUILD_DIR "/tests/zoo\"]";
  for (const std::string rule : {"sign_sgd", "sigmoid_rule", "rule_scaled", "rule_of_matrices"}) {
    const Words base{zoo, "optimizer.plugin=" + rule, "optimizer.lr=1e-3", "optimizer.ema_decay=0.9"};
    const Result whole = run(rule, base).ended(0);
    EXPECT_THAT(whole.out + whole.err, HasSubstr("optimizer " + rule));
    EXPECT_EQ((whole.out + whole.err).find(" by " + rule + "; ") != std::string::npos,
              rule == "rule_of_matrices");
    for (const char* stage : {"1", "2", "3"}) {
      const std::string dir = rule + stage;
      ASSERT_EQ(run(dir, base + Words{"strategy.plugin=ddp", "launch.processes=2", "train.max_steps=5"}).code,
                0);
      run(dir, base + Words{"strategy.plugin=sharded", "launch.processes=3",
                            std::string("strategy.zero_stage=") + stage})
          .ended(0);
      EXPECT_EQ(curve(dir), curve(rule)) << dir;
    }
  }
  // rule_scaled takes the gradients' scale; for rule_right the strategy undoes it.
  run("rule_right", {zoo, "optimizer.plugin=rule_right", "optimizer.lr=1e-3"}).ended(0);
  EXPECT_EQ(curve("rule_scaled"), curve("rule_right"));
  EXPECT_THAT(run("x", {"optimizer.plugin=sign_sgd", "optimizer.kind=sgd"}).err,
              HasSubstr("the rule is that of optimizer.plugin = \"sign_sgd\": leave one of the two out"));
  EXPECT_THAT(run("sign_sgd", {"optimizer.kind=adamw"}).err, HasSubstr("optimizer.plugin"));
}

// With --average the mean of the last checkpoints' weights is exported and evaluated.
TEST_F(ScheduleRun, WeightsOfSeveralCheckpointsAreAveraged) {
  run("run", {}).ended(0);  // keeps 6, 10 and 12
  const auto exported = [&](const std::string& name, const Words& more) {
    call("export", Words{"--output", name} + more).ended(0);
    return safetensors::Folder::open(path(name).string());
  };
  const auto floats = [](const safetensors::TensorView& tensor) {
    const auto* first = reinterpret_cast<const float*>(tensor.data.data());
    return std::vector<float>(first, first + tensor.data.size() / sizeof(float));
  };
  const auto mean = exported("mean", {"--average", "3"}), of6 = exported("6", {"--checkpoint", kStep + "06"}),
             of10 = exported("10", {"--checkpoint", kStep + "10"}),
             of12 = exported("12", {"--checkpoint", "last"});
  ASSERT_EQ(mean.names(), of12.names());
  ASSERT_FALSE(mean.names().empty());
  for (const std::string& name : mean.names()) {
    const auto seen = floats(mean.at(name)), a = floats(of6.at(name)), b = floats(of10.at(name)),
               c = floats(of12.at(name));
    for (size_t i = 0; i < seen.size(); ++i)
      ASSERT_EQ(seen[i], static_cast<float>((double{c[i]} + double{b[i]} + double{a[i]}) / 3)) << name;
    EXPECT_NE(seen, c) << name;
  }
  call("evaluate", {"--average", "2", "--split", "val", "--output", "two.json"}).ended(0);
  const json two = read_json(path("two.json"));
  EXPECT_EQ(two["checkpoint"], "run/checkpoints/step-00000012, averaged with steps 10");
  call("evaluate", {"--checkpoint", "last", "--split", "val", "--output", "one.json"}).ended(0);
  EXPECT_NE(two["figures"]["loss"], read_json(path("one.json"))["figures"]["loss"]);
  EXPECT_THAT(call("evaluate", {"--average", "4"}).err,
              HasSubstr("--average 4: there are 3 checkpoints up to run/checkpoints/step-00000012"));
  EXPECT_THAT(call("evaluate", {"--average", "2", "--checkpoint", "mean"}).err,
              HasSubstr("--average 2: mean is the model folder of another tool"));
}

}  // namespace
}  // namespace pipeline::tests
