#include <sstream>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "core/config/explain.hpp"
#include "core/config/option.hpp"
#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

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

TEST(Explain, ListsKeyTypeDefaultAndHelpByTable) {
  static constexpr pl_str kChoices[] = {{"gelu", 4}, {"relu", 4}};
  pl_option options[] = {
      make_option("show", PL_OPTION_INT, "3", PL_OPTION_MAY_CHANGE | PL_OPTION_HAS_MINIMUM),
      make_option("data.train", PL_OPTION_PATH, "", PL_OPTION_REQUIRED),
      make_option("data.files", PL_OPTION_STRING_LIST, "[\"a long default\", \"that needs a line\"]"),
      make_option("model.activation", PL_OPTION_STRING, "\"gelu\"")};
  options[0].unit = str("samples");
  options[0].help = str("how many to show");
  options[1].help =
      str("pairs to learn from, one object in a line, with a document and its summary in columns that can be "
          "named");
  options[3].choices = kChoices;
  options[3].choice_count = 2;
  EXPECT_EQ(explain(options, "task.", 80),
            "[task]\n"
            "show*       integer          3                 how many to show (samples, >= 0)\n"
            "\n"
            "[task.data]\n"
            "train       path             required          pairs to learn from, one object\n"
            "                                               in a line, with a document and\n"
            "                                               its summary in columns that can\n"
            "                                               be named\n"
            "files       list of strings  [\"a long default\", \"that needs a line\"]\n"
            "                                               help\n"
            "\n"
            "[task.model]\n"
            "activation  string           \"gelu\"            help (gelu or relu)\n"
            "\n"
            "* may change when a run is continued\n");
}

TEST(Explain, FitsTheWidthAndNamesEveryKey) {
  std::istringstream lines(explain(core_options()));
  size_t keys = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    if (!line.empty() && line[0] != ' ' && line[0] != '[' && line[0] != '*' && line[0] != '+') ++keys;
  }
  EXPECT_EQ(keys, core_options().size());
}

TEST(Explain, MarksWhatMayChangeByNameOfTheCoreAlone) {
  const pl_option option = make_option("lr", PL_OPTION_FLOAT, "1.0", kChangesByName);
  EXPECT_NE(explain(std::span(&option, 1), "").find("lr+ "), std::string::npos);
  EXPECT_NE(explain(std::span(&option, 1), "").find("\n+ may, if named: "), std::string::npos);
  EXPECT_EQ(explain(std::span(&option, 1), "task.").find('+'), std::string::npos);
}

TEST(Explain, MarkdownIsOneRowForEachOption) {
  pl_option option = make_option("a|b", PL_OPTION_INT, "3", PL_OPTION_MAY_CHANGE);
  option.help = str("this | that");
  EXPECT_EQ(explain_markdown(std::span(&option, 1), "task."),
            "| key | type | default | meaning |\n"
            "| --- | --- | --- | --- |\n"
            "| `task.a|b`* | integer | `3` | this \\| that |\n");
}

using Readme = ConfigFiles;

TEST_F(Readme, ListsTheFilesWithTheirFirstCommentAndAllOptions) {
  write("configs/b.toml", "# Trains B,\n#   slowly.\n\n# not this\n[train]\n");
  write("configs/a.toml", "[train]\n");
  write("configs/notes.txt", "");
  const std::vector<ConfigFile> files = list_configs("configs");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "a.toml");
  EXPECT_EQ(files[0].summary, "");
  EXPECT_EQ(files[1].summary, "Trains B, slowly.");

  const auto options = task_options();
  const PluginSchema plugins[] = {{"task", "tiny", "A tiny task", {options.begin(), options.end()}},
                                  {"backend", "gloo", "Over TCP", {}}};
  const std::string readme = configs_readme(files, core_options(), plugins);
  EXPECT_NE(readme.find("- [`a.toml`](a.toml)\n- [`b.toml`](b.toml): Trains B, slowly.\n"),
            std::string::npos);
  EXPECT_NE(
      readme.find("| `train.max_steps`* | integer | - | end after this many optimizer steps (steps, >= 1) |"),
      std::string::npos);
  EXPECT_NE(readme.find("## `task.plugin = \"tiny\"`\n\nA tiny task\n\n| key |"), std::string::npos);
  EXPECT_NE(readme.find("| `task.data.train` | path | required | help |"), std::string::npos);
  EXPECT_TRUE(readme.ends_with("## `backend.plugin = \"gloo\"`\n\nOver TCP\n"));
  EXPECT_EQ(problems_of([] { list_configs("nowhere"); }),
            "nowhere: cannot be listed: No such file or directory");
}

nlohmann::json schema() {
  const auto options = task_options();
  const PluginSchema plugins[] = {
      {"task", "tiny", "A tiny task", {options.begin(), options.end()}},
      {"strategy", "ddp", "Replicas", {make_option("bucket", PL_OPTION_INT, "25")}}};
  return nlohmann::json::parse(json_schema(core_options(), plugins));
}

TEST(JsonSchema, HasEveryCoreOptionWithTypeRangeChoicesAndDefault) {
  const nlohmann::json root = schema();
  EXPECT_EQ(root["additionalProperties"], false);
  for (const pl_option& option : core_options()) {
    const std::string key(view(option.key));
    const std::string table = key.substr(0, key.find('.'));
    const std::string name = key.substr(key.find('.') + 1);
    const nlohmann::json& properties = table == "stage"
                                           ? root["properties"]["stage"]["else"]["items"]["properties"]
                                           : root["definitions"][table]["properties"];
    ASSERT_TRUE(properties.contains(name)) << key;
    EXPECT_FALSE(properties[name]["description"].get<std::string>().empty()) << key;
  }
  const nlohmann::json& train = root["definitions"]["train"];
  EXPECT_EQ(train["additionalProperties"], false);
  EXPECT_EQ(train["properties"]["precision"]["enum"], nlohmann::json({"auto", "fp32", "bf16", "fp16"}));
  EXPECT_EQ(train["properties"]["precision"]["default"], "auto");
  EXPECT_EQ(train["properties"]["max_steps"]["anyOf"],
            nlohmann::json::parse(R"([{"type": "integer", "minimum": 1.0}, {"const": "unset"}])"));
  EXPECT_EQ(train["properties"]["micro_batch"]["anyOf"],
            nlohmann::json::parse(
                R"([{"type": "integer", "minimum": 1.0}, {"enum": ["auto"]}, {"const": "unset"}])"));
  EXPECT_EQ(train["properties"]["loss_scale"]["exclusiveMinimum"], 0);
  EXPECT_EQ(root["definitions"]["optimizer"]["properties"]["beta1"]["exclusiveMaximum"], 1);
  EXPECT_EQ(root["definitions"]["plugins"]["properties"]["paths"]["items"]["type"], "string");
  EXPECT_EQ(root["properties"]["train"]["$ref"], "#/definitions/train");
}

TEST(JsonSchema, StagesOverrideTablesButNotThoseOfTheRun) {
  const nlohmann::json stage = schema()["properties"]["stage"]["else"]["items"]["properties"];
  EXPECT_EQ(stage["kind"]["enum"], nlohmann::json({"train", "evaluate", "predict", "export", "pool"}));
  EXPECT_EQ(stage["train"]["$ref"], "#/definitions/train");
  EXPECT_TRUE(stage.contains("task"));
  EXPECT_FALSE(stage.contains("launch"));
  EXPECT_TRUE(stage["run"]["properties"].contains("seed"));
  EXPECT_FALSE(stage["run"]["properties"].contains("dir"));
}

TEST(JsonSchema, APluginsOptionsApplyWhereItIsNamed) {
  const nlohmann::json root = schema();
  const nlohmann::json& task = root["definitions"]["task"];
  EXPECT_EQ(task["if"]["properties"]["plugin"]["const"], "tiny");
  EXPECT_EQ(task["then"]["$ref"], "#/definitions/task.tiny");
  // By anyOf editors offer these options whatever plugin is named; it never fails.
  EXPECT_EQ(task["anyOf"], nlohmann::json::parse(R"([{"$ref": "#/definitions/task.tiny"}, {}])"));
  EXPECT_FALSE(task.contains("allOf"));
  const nlohmann::json& then = root["definitions"]["task.tiny"];
  EXPECT_EQ(then["additionalProperties"], false);
  EXPECT_TRUE(then["properties"].contains("plugin"));
  const nlohmann::json& model = then["properties"]["model"];
  EXPECT_EQ(model["additionalProperties"], false);
  EXPECT_EQ(model["properties"]["n_head"]["minimum"], 1);
  EXPECT_EQ(model["properties"]["widths"]["default"], nlohmann::json({1, 2}));
  EXPECT_EQ(root["definitions"]["strategy"]["properties"]["plugin"]["examples"],
            nlohmann::json({"auto", "ddp"}));
  EXPECT_TRUE(root["definitions"]["strategy.auto"]["properties"].contains("bucket"));
}

}  // namespace
}  // namespace pipeline::config
