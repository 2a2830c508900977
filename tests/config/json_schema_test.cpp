#include "core/config/explain.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/config/option.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

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
