#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

#include <gmock/gmock.h>

namespace pipeline::config {
namespace {

class Write : public ConfigFiles {
 protected:
  static std::vector<std::pair<std::string, std::string>> values(
      const Config& config, std::span<const PluginConfig* const> plugins = {}) {
    std::vector<std::pair<std::string, std::string>> values;
    for (const Row& row : config.rows(plugins)) values.emplace_back(row.key, row.value);
    return values;
  }
};

TEST_F(Write, EveryValueNamesItsOrigin) {
  const Config config = load_text("task.plugin = 't'\n[train]\nmax_steps = 5\n", {"optimizer.lr=1e-5"});
  const std::string toml = config.to_toml(true);
  const auto line = [&](std::string_view start) {
    const size_t begin = toml.find("\n" + std::string(start));
    return begin == std::string::npos ? "" : toml.substr(begin + 1, toml.find('\n', begin + 1) - begin - 1);
  };
  EXPECT_EQ(line("max_steps"), "max_steps = 5                               # x.toml:3");
  EXPECT_EQ(line("lr ="), "lr = 1e-5                                   # --set optimizer.lr=1e-5");
  EXPECT_EQ(line("beta1"), "beta1 = 0.9                                 # default");
  EXPECT_EQ(line("# max_epochs"), "# max_epochs: not set");
  EXPECT_EQ(config.to_toml(false).find('#'), std::string::npos);
}

TEST_F(Write, ReadsBackAsTheSameConfiguration) {
  const Config config = load_text(
      "task.plugin = 't'\n[train]\nmax_steps = 5\n[task.data]\ntrain = 'a \"b\" \\ # c.csv'\nextra = "
      "[]\n[task.model]\nrates = [1, 2.5]\n",
      {"run.name=a\x01\tb\nc"});
  const pl_config task = config.plugin("task", task_options());
  const PluginConfig* plugins[] = {&task};
  for (const bool with_origins : {false, true}) {
    const Config again = load_text(config.to_toml(with_origins, plugins));
    const pl_config task_again = again.plugin("task", task_options());
    const PluginConfig* plugins_again[] = {&task_again};
    EXPECT_EQ(values(again, plugins_again), values(config, plugins));
  }
  // Without the schema the task's values are there as they were written.
  EXPECT_EQ(values(load_text(config.to_toml(true))), values(config));
}

TEST_F(Write, AStageReadsBackAsThatStage) {
  const Config config = load_text(
      "task.plugin = 't'\n[[stage]]\nname = 'a'\n[[stage]]\nname = 'b'\nkind = 'predict'\ninit_from = "
      "'a'\noptimizer.lr = 1e-5\n");
  const Config stage = config.for_stage("b");
  const Config again = load_text(stage.to_toml(true));
  EXPECT_EQ(again.stage_names(), std::vector<std::string>{"b"});
  EXPECT_EQ(values(again.for_stage("b")), values(stage));
  EXPECT_EQ(again.for_stage("b").get_string("stage.kind"), "predict");
  EXPECT_EQ(again.for_stage("b").get_string("stage.init_from"), "a");
  EXPECT_EQ(again.for_stage("b").get_float("optimizer.lr"), 1e-5);
}

TEST_F(Write, WhatWasFoundForAutoIsTheValueThenOn) {
  const Config config = load_text("task.plugin = 't'\ntrain.micro_batch = 'auto'\n");
  EXPECT_TRUE(config.is_auto("train.micro_batch"));
  EXPECT_EQ(config.find_int("train.micro_batch"), std::nullopt);
  EXPECT_TRUE(load_text(config.to_toml(true)).is_auto("train.micro_batch"));
  const Config found = config.with_found("train.micro_batch", 12);
  EXPECT_FALSE(found.is_auto("train.micro_batch"));
  EXPECT_EQ(found.get_int("train.micro_batch"), 12);
  EXPECT_THAT(found.to_toml(true), testing::ContainsRegex("micro_batch = 12 +# x.toml:2 \\(auto\\)"));
  EXPECT_EQ(load_text(found.to_toml(true)).get_int("train.micro_batch"), 12);
}

TEST_F(Write, AllStagesReadBack) {
  const Config config = load_text(
      "task.plugin = 't'\n[[stage]]\nname = 'a'\n[[stage]]\nname = 'b'\ninit_from = 'a'\noptimizer.lr = "
      "1e-5\n[stage.train]\n"
      "max_steps = 3\n",
      {"stage.a.optimizer.lr=2e-5", "train.max_steps=9"});
  const Config again = load_text(config.to_toml(true));
  EXPECT_EQ(again.stage_names(), config.stage_names());
  for (const char* stage : {"a", "b"})
    EXPECT_EQ(values(again.for_stage(stage)), values(config.for_stage(stage)));
}

TEST_F(Write, PluginKeysComeBelowTheirTable) {
  const Config config = load_text("task.plugin = 't'\ntask.data.train = 'x'\n");
  const pl_config task = config.plugin("task", task_options());
  const PluginConfig* plugins[] = {&task};
  const std::string toml = config.to_toml(false, plugins);
  EXPECT_NE(toml.find("\n[task]\nplugin = \"t\"\nshow = 3\n\n[task.data]\ntrain = \"x\"\nextra = []\n"),
            std::string::npos)
      << toml;
  EXPECT_NE(toml.find("\n[task.model]\nn_head = 12\nactivation = \"gelu\"\ndropout = 0.1\n"),
            std::string::npos)
      << toml;
}

}  // namespace
}  // namespace pipeline::config
