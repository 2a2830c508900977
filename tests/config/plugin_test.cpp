#include "core/config/option.hpp"
#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

class PluginTable : public ConfigFiles {
 protected:
  void SetUp() override {
    ConfigFiles::SetUp();
    fill_config_slots(host_);
  }

  static pl_config task(std::string_view text, std::vector<std::string> sets = {}) {
    return load_text(text, std::move(sets)).plugin("task", task_options());
  }
  static std::string task_problems(std::string_view text, std::vector<std::string> sets = {}) {
    return problems_of([&] { task(text, std::move(sets)); });
  }
  static std::string message_of(pl_error* error, uint32_t code) {
    if (!error) return "";
    EXPECT_EQ(error->code, code);
    std::string message = error->message;
    delete error;
    return message;
  }
  static std::string text(pl_str s) { return {s.ptr, s.len}; }

  static constexpr std::string_view kTask =
      "[task]\nplugin = 't'\n[task.data]\ntrain = 'a.csv'\n[task.model]\nn_head = 7\n";
  pl_host host_{};
};

TEST_F(PluginTable, GivesValuesDefaultsAndOrigins) {
  const pl_config config = task(kTask, {"task.model.bias=false"});
  EXPECT_EQ(config.get_int("model.n_head"), 7);
  EXPECT_EQ(config.get_string("model.activation"), "gelu");
  EXPECT_FALSE(config.get_bool("model.bias"));
  EXPECT_EQ(config.find_path("data.train"), (std::filesystem::current_path() / "a.csv").string());
  EXPECT_EQ(config.find_int("model.window"), std::nullopt);
  EXPECT_TRUE(config.is_set("model.n_head"));
  EXPECT_FALSE(config.is_set("model.dropout"));
  EXPECT_EQ(config.origin("model.n_head").describe(), "x.toml:6");
  EXPECT_STREQ(config.error("model.n_head", "must divide n_embd (768): write 6 or 8").what(),
               "x.toml:6: task.model.n_head = 7: must divide n_embd (768): write 6 or 8");
}

TEST_F(PluginTable, ReportsAllMistakesAtOnce) {
  EXPECT_EQ(task_problems("[task]\nplugin = 't'\nn_head = 3\n[task.model]\nn_haed = 3\nactivation = "
                          "'gleu'\nn_head = 0\nwidths = [1, 2.5]\n"
                          "[task.dat]\nx = 1\n[task.data]\nbatch_size = 3\n",
                          {"task.model.dropout=much"}),
            "x.toml: task.data.train: is required and not given: help\n"
            "x.toml:3: task.n_head = 3: unknown key: did you mean task.model.n_head?\n"
            "x.toml:5: task.model.n_haed = 3: unknown key: did you mean task.model.n_head?\n"
            "x.toml:6: task.model.activation = \"gleu\": is not one of gelu or relu: did you mean gelu?\n"
            "x.toml:7: task.model.n_head = 0: out of range: must be at least 1\n"
            "x.toml:8: task.model.widths = [1, 2.5]: element 2 must be an integer, is a number with a "
            "decimal point\n"
            "x.toml:9: [task.dat]: unknown table: did you mean [task.data]?\n"
            "x.toml:12: task.data.batch_size = 3: unknown key: write train.global_batch (samples per "
            "optimizer step over all devices) or train.batch_per_device\n"
            "--set task.model.dropout=much: must be a number, is a string");
}

TEST_F(PluginTable, WhatIsNotSetFollowsTheModel) {
  const std::string from = "models/x/config.json";
  const std::vector<ModelOption> model{{.key = "model.n_head", .value = "20", .from = from, .must_be = true},
                                       {.key = "model.dropout", .value = "0.5", .from = from},
                                       {.key = "model.bias", .value = "false", .from = from},
                                       {.key = "show", .value = "4", .from = from, .must_be = true}};
  const auto with = [&](std::string_view text) {
    return load_text(text).plugin("task", task_options(), {}, model);
  };
  const pl_config config =
      with("[task]\nplugin = 't'\nshow = 4\n[task.data]\ntrain = 'a.csv'\n[task.model]\ndropout = 0.2\n");
  EXPECT_EQ(config.get_int("model.n_head"), 20);
  EXPECT_FALSE(config.is_set("model.n_head"));
  EXPECT_EQ(config.origin("model.n_head").describe(), from);
  EXPECT_EQ(config.get_float("model.dropout"), 0.2) << "set";
  EXPECT_FALSE(config.get_bool("model.bias"));
  EXPECT_STREQ(config.error("model.n_head", "is odd").what(),
               "models/x/config.json: task.model.n_head = 20: is odd");
}

TEST_F(PluginTable, EveryDifferenceFromTheModelIsTold) {
  const std::vector<ModelOption> model{{.key = "model.n_head", .value = "20", .from = "x", .must_be = true},
                                       {.key = "show", .value = "9", .from = "x", .must_be = true},
                                       {.key = "model.window", .value = "\"wide\"", .from = "x"},
                                       {.key = "model.bias", .problem = "is not for this model"}};
  const std::string rest =
      ", and these weights are of that model: leave the option out, or begin with other weights\n";
  EXPECT_EQ(
      problems_of([&] {
        load_text(kTask, {"task.show=5", "task.model.bias=true"}).plugin("task", task_options(), {}, model);
      }),
      "x: task.model.window = \"wide\": must be an integer, is a string\n"
      "x.toml:6: task.model.n_head = 7: x has 20" +
          rest + "--set task.show=5: x has 9" + rest + "--set task.model.bias=true: is not for this model");
}

TEST_F(PluginTable, StagesHaveTheirOwn) {
  const Config config =
      load_text(std::string(kTask) + "[[stage]]\nname = 'a'\n[[stage]]\nname = 'b'\ntask.model.n_head = 9\n");
  EXPECT_EQ(config.for_stage("a").plugin("task", task_options()).get_int("model.n_head"), 7);
  EXPECT_EQ(config.for_stage("b").plugin("task", task_options()).get_int("model.n_head"), 9);
}

TEST_F(PluginTable, OfAPluginWithoutOptionsMustBeEmpty) {
  const auto strategy = [](const char* text) {
    return problems_of([&] { load_text(text).plugin("strategy", {}); });
  };
  EXPECT_EQ(strategy("task.plugin = 't'\n[strategy]\nplugin = 'ddp'\n"), "");
  EXPECT_EQ(strategy("task.plugin = 't'\n[strategy]\nplugni = 3\n"),
            "x.toml:3: strategy.plugni = 3: unknown key: did you mean strategy.plugin?");
}

// ------------------------------------------------------------------------------------------------ as plugins
// see it

TEST_F(PluginTable, SlotsGiveEveryType) {
  pl_config moved_from = task(std::string(kTask) + "window = 5\n");
  const pl_config config = std::move(moved_from);
  int64_t integer = 0;
  double number = 0;
  uint32_t flag = 0;
  pl_str string{};
  uint64_t count = 0;
  const int64_t* integers = nullptr;
  const double* numbers = nullptr;
  const pl_str* strings = nullptr;
  EXPECT_EQ(host_.config_int(&config, str("model.n_head"), &integer), nullptr);
  EXPECT_EQ(integer, 7);
  EXPECT_EQ(host_.config_int(&config, str("model.window"), &integer), nullptr);
  EXPECT_EQ(integer, 5);
  EXPECT_EQ(host_.config_float(&config, str("model.dropout"), &number), nullptr);
  EXPECT_EQ(number, 0.1);
  EXPECT_EQ(host_.config_bool(&config, str("model.bias"), &flag), nullptr);
  EXPECT_EQ(flag, 1u);
  EXPECT_EQ(host_.config_string(&config, str("model.activation"), &string), nullptr);
  EXPECT_EQ(text(string), "gelu");
  EXPECT_EQ(host_.config_string(&config, str("data.train"), &string), nullptr);
  EXPECT_EQ(text(string), (std::filesystem::current_path() / "a.csv").string());
  EXPECT_EQ(host_.config_int_list(&config, str("model.widths"), &integers, &count), nullptr);
  EXPECT_EQ(std::vector<int64_t>(integers, integers + count), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(host_.config_float_list(&config, str("model.rates"), &numbers, &count), nullptr);
  EXPECT_EQ(std::vector<double>(numbers, numbers + count), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(host_.config_string_list(&config, str("data.columns"), &strings, &count), nullptr);
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(text(strings[1]), "summary");
  EXPECT_EQ(host_.config_string_list(&config, str("data.extra"), &strings, &count), nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(host_.config_is_set(&config, str("model.n_head")), 1u);
  EXPECT_EQ(host_.config_is_set(&config, str("model.dropout")), 0u);
  EXPECT_EQ(host_.config_is_set(&config, str("nothing")), 0u);
}

TEST_F(PluginTable, SlotsRefuseWhatTheSchemaDoesNotHave) {
  const pl_config config = task(kTask);
  int64_t integer = 0;
  pl_str string{};
  const pl_str* strings = nullptr;
  uint64_t count = 0;
  EXPECT_EQ(message_of(host_.config_int(&config, str("model.n_layer"), &integer), PL_ERROR_FAILED),
            "option task.model.n_layer was asked for, which the schema does not have");
  EXPECT_EQ(message_of(host_.config_int(&config, str("model.dropout"), &integer), PL_ERROR_FAILED),
            "option task.model.dropout is of type number, and was asked for as integer");
  EXPECT_EQ(message_of(host_.config_string(&config, str("model.dropout"), &string), PL_ERROR_FAILED),
            "option task.model.dropout is of type number, and was asked for as string");
  EXPECT_EQ(
      message_of(host_.config_string_list(&config, str("data.train"), &strings, &count), PL_ERROR_FAILED),
      "option task.data.train is of type path, and was asked for as list of strings");
  EXPECT_EQ(message_of(host_.config_int(&config, str("model.window"), &integer), PL_ERROR_CONFIG),
            "x.toml: task.model.window: is needed here and has no default: give it a value");
  EXPECT_EQ(message_of(host_.config_error(&config, str("model.n_head"), str("must divide n_embd (768)")),
                       PL_ERROR_CONFIG),
            "x.toml:6: task.model.n_head = 7: must divide n_embd (768)");
  EXPECT_EQ(message_of(host_.config_error(&config, str("nothing"), str("is wrong")), PL_ERROR_FAILED),
            "option task.nothing was asked for, which the schema does not have");
}

}  // namespace
}  // namespace pipeline::config
