#include "core/config/config.hpp"

#include <gmock/gmock.h>

#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

class Differences : public ConfigFiles {
 protected:
  static constexpr std::string_view kBefore =
      "task.plugin = 't'\ntask.data.train = 'a.csv'\ntrain.max_steps = 5\ntrain.global_batch = "
      "256\noptimizer.lr = 1\n";

  static std::string stored() {
    const Config config = load_text(kBefore);
    const pl_config task = config.plugin("task", task_options());
    const PluginConfig* plugins[] = {&task};
    return config.to_toml(true, plugins);
  }
  // "key: before -> now" for each difference, with * where it may change.
  static std::vector<std::string> compare(std::string_view text, std::vector<std::string> sets = {}) {
    const std::string before = stored();
    const Config config = load_text(text, std::move(sets));
    const pl_config task = config.plugin("task", task_options());
    const PluginConfig* plugins[] = {&task};
    std::vector<std::string> lines;
    for (const Difference& d : differences(before, config, plugins))
      lines.push_back(d.key + (d.may_change ? "*: " : ": ") + d.before + " -> " + d.now);
    return lines;
  }
};

using Lines = std::vector<std::string>;

TEST_F(Differences, ThereAreNoneBetweenARunAndItsOwnRecord) {
  EXPECT_EQ(compare(kBefore), Lines{});
  EXPECT_EQ(compare(std::string(kBefore), {"optimizer.lr=1.0"}), Lines{});
}

TEST_F(Differences, ShowBothValuesAndWhetherTheyMayChange) {
  EXPECT_EQ(compare("task.plugin = 't'\ntask.data.train = 'b.csv'\ntrain.max_steps = 9\noptimizer.lr = "
                    "1\ntask.show = 4\n"
                    "strategy.plugin = 'ddp'\ntrain.max_epochs = 3\ntask.model.n_head = 8\n"),
            (Lines{"strategy.plugin*: \"auto\" -> \"ddp\"", "train.global_batch: 256 -> ",
                   "train.max_steps*: 5 -> 9", "train.max_epochs*:  -> 3", "task.model.n_head: 12 -> 8",
                   "task.data.train: \"a.csv\" -> \"b.csv\"", "task.show*: 3 -> 4"}));
}

TEST_F(Differences, InWhatMustStayAreAnErrorThatShowsBoth) {
  const std::string before = stored();
  const Config config = load_text(kBefore, {"train.global_batch=512", "train.max_steps=7"});
  const pl_config task = config.plugin("task", task_options());
  const PluginConfig* plugins[] = {&task};
  EXPECT_EQ(problems_of([&] { require_resumable(before, "runs/x", config, plugins); }),
            "--set train.global_batch=512: was 256 in runs/x, and it must stay the same when a run is "
            "continued: write 256, or begin another run from these weights (train.init_from, and another "
            "run.dir), or start over with --fresh");
  const Config longer = load_text(kBefore, {"train.max_steps=7"});
  const std::vector<Difference> allowed = require_resumable(before, "runs/x", longer, plugins);
  ASSERT_EQ(allowed.size(), 1u);
  EXPECT_EQ(allowed[0].key, "train.max_steps");
}

TEST_F(Differences, InWhatActsFromAStepOnAreAllowedWhereTheyAreNamed) {
  const std::string before = stored();
  const auto load_with = [&](std::vector<std::string> sets, std::vector<std::string> changes) {
    write("x.toml", kBefore);
    return load({.file = "x.toml",
                 .sets = std::move(sets),
                 .changes = std::move(changes),
                 .stage = "",
                 .find_plugins = {}});
  };
  const Config set = load_with({"optimizer.lr=0.5"}, {}), named = load_with({}, {"optimizer.lr=0.5"});
  const pl_config task = set.plugin("task", task_options());
  const PluginConfig* plugins[] = {&task};
  EXPECT_EQ(problems_of([&] { require_resumable(before, "runs/x", set, plugins); }),
            "--set optimizer.lr=0.5: was 1.0 in runs/x, and it must stay the same when a run is continued: "
            "write 1.0, or change it from here on with --change optimizer.lr=0.5, or begin another run from "
            "these weights (train.init_from, and another run.dir), or start over with --fresh");
  const std::vector<Difference> allowed = require_resumable(before, "runs/x", named, plugins);
  ASSERT_EQ(allowed.size(), 1u);
  EXPECT_TRUE(allowed[0].named);
  EXPECT_EQ(named.get_float("optimizer.lr"), 0.5);
  EXPECT_EQ(named.with_changed("optimizer.lr", "0.25", "after step 7").get_float("optimizer.lr"), 0.25);
}

TEST_F(Differences, WhatDecidesTheRunFromItsBeginningCannotBeNamed) {
  const auto problem = [&](const std::string& change) {
    return problems_of([&] {
      write("x.toml", kBefore);
      load({.file = "x.toml", .sets = {}, .changes = {change}, .stage = "", .find_plugins = {}});
    });
  };
  constexpr const char* kRemedy =
      ": begin another run from the weights of this one, with train.init_from and another run.dir";
  EXPECT_EQ(problem("train.global_batch=8"),
            std::string("--change train.global_batch=8: a continued run cannot change it: it decides which "
                        "samples each step sees, from the first one on") +
                kRemedy);
  EXPECT_EQ(problem("optimizer.kind=sgd"),
            std::string("--change optimizer.kind=sgd: a continued run cannot change it: it decides what the "
                        "optimizer has stored so far") +
                kRemedy);
  for (const char* key : {"run.seed=3", "loader.shuffle=false", "task.model.n_head=3", "train.init_from=x",
                          "train.precision=fp32", "task.plugin=u"})
    EXPECT_TRUE(problem(key).ends_with(kRemedy)) << problem(key);
  EXPECT_EQ(problem("loader.workers=3"), "--change loader.workers=3: may change anyway: write --set");
  EXPECT_EQ(problem("optimizer.lrr=3"), "--change optimizer.lrr=3: unknown key: did you mean optimizer.lr?");
  EXPECT_EQ(
      problem("optimizer.lr"),
      "--change optimizer.lr: has no =: write --change KEY=VALUE, for example --change train.max_steps=20");
}

TEST_F(Differences, OfAValueThatIsGoneOrNew) {
  const std::string before = stored();
  const Config config = load_text(
      "task.plugin = 't'\ntask.data.train = 'a.csv'\ntrain.max_steps = 5\ntrain.batch_per_device = "
      "16\noptimizer.lr = 1\n");
  const pl_config task = config.plugin("task", task_options());
  const PluginConfig* plugins[] = {&task};
  EXPECT_EQ(problems_of([&] { require_resumable(before, "runs/x", config, plugins); }),
            "train.global_batch: was 256 in runs/x, and it must stay the same when a run is continued: write "
            "256, or begin another run from these weights (train.init_from, and another run.dir), or start "
            "over with --fresh\n"
            "x.toml:4: train.batch_per_device = 16: was not set in runs/x, and it must stay the same when a "
            "run is continued: remove it, or begin another run from these weights (train.init_from, and "
            "another run.dir), or start over with --fresh");
}

// Another version of the task: an option that it no longer has, and one that it has with a default.
TEST_F(Differences, OptionsComeAndGoWithAVersionOfThePlugin) {
  const Config config = load_text(kBefore),
               set = load_text(std::string(kBefore) + "task.model.dropout = 0.1\n");
  const pl_config task = config.plugin("task", task_options()), same = set.plugin("task", task_options());
  const PluginConfig *plugins[] = {&task}, *plugins_set[] = {&same};
  std::string before = stored();
  const size_t at = before.find("dropout");
  ASSERT_NE(at, std::string::npos) << before;
  before.replace(at, 7, "gone");
  const std::vector<Difference> allowed = require_resumable(before, "runs/x", config, plugins);
  ASSERT_EQ(allowed.size(), 2u);
  EXPECT_EQ(allowed[0].key, "task.model.dropout");
  EXPECT_EQ(allowed[1].key, "task.model.gone");
  EXPECT_THAT(problems_of([&] { require_resumable(before, "runs/x", set, plugins_set); }),
              ::testing::HasSubstr("task.model.dropout = 0.1: was not set in runs/x"));
}

TEST_F(Differences, TheStrategysOptionsComeAndGoWithIt) {
  const Config one = load_text("task.plugin = 't'\n[strategy]\nplugin = 'ddp'\ndata.train = 'x'\n");
  const pl_config options = one.plugin("strategy", task_options());
  const PluginConfig* plugins[] = {&options};
  const Config other = load_text("task.plugin = 't'\n[strategy]\nplugin = 'single'\n");
  EXPECT_FALSE(require_resumable(one.to_toml(false, plugins), "runs/x", other, {}).empty());
  EXPECT_FALSE(require_resumable(other.to_toml(false), "runs/x", one, plugins).empty());
}

TEST_F(Differences, ADamagedRecordIsNamed) {
  const Config config = load_text(kBefore);
  EXPECT_EQ(problems_of([&] { differences("a = ", config); }),
            "stored configuration:1:5: the file ends in the middle of a key-value pair: close it");
}

}  // namespace
}  // namespace pipeline::config
