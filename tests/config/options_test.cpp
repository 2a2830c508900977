#include "core/config/option.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/config/core_options.hpp"
#include "core/config/document.hpp"
#include "core/plugins/error.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

using Problems = std::vector<std::string>;

TEST(CoreOptions, AreASchemaWithoutMistakes) { EXPECT_EQ(schema_problems(core_options(), ""), Problems{}); }

// Scripts and people rely on these names.
TEST(CoreOptions, HaveTheSettledKeys) {
  for (const char* key : {"run.name",
                          "run.dir",
                          "run.seed",
                          "run.reproducible",
                          "run.device",
                          "task.plugin",
                          "strategy.plugin",
                          "strategy.zero_stage",
                          "backend.plugin",
                          "optimizer.lr",
                          "schedule.lr_scaling",
                          "schedule.base_batch",
                          "loader.workers",
                          "loader.prefetch",
                          "loader.pin_memory",
                          "train.global_batch",
                          "train.batch_per_device",
                          "train.micro_batch",
                          "train.accumulation_steps",
                          "train.max_steps",
                          "train.max_epochs",
                          "train.max_seconds",
                          "train.precision",
                          "train.clip_grad_norm",
                          "train.activation_checkpointing",
                          "train.init_from",
                          "evaluate.every",
                          "checkpoint.every",
                          "checkpoint.keep",
                          "observe.log_level",
                          "launch.processes",
                          "launch.threads",
                          "launch.max_restarts",
                          "launch.stall_seconds",
                          "plugins.paths",
                          "stage.name",
                          "stage.kind",
                          "stage.init_from"})
    EXPECT_TRUE(std::ranges::any_of(core_options(), [&](const pl_option& option) {
      return view(option.key) == key;
    })) << key;
}

TEST(CoreOptions, WhatDecidesTheResultMustNotChangeWhenARunIsContinued) {
  const auto may_change = [](std::string_view key) {
    for (const pl_option& option : core_options())
      if (view(option.key) == key) return (option.flags & PL_OPTION_MAY_CHANGE) != 0;
    ADD_FAILURE() << key;
    return false;
  };
  for (const char* key :
       {"run.seed", "run.reproducible", "task.plugin", "optimizer.lr", "optimizer.kind", "schedule.kind",
        "train.global_batch", "train.precision", "train.clip_grad_norm", "loader.shuffle"})
    EXPECT_FALSE(may_change(key)) << key;
  for (const char* key :
       {"train.max_steps", "train.max_epochs", "train.max_seconds", "evaluate.every", "checkpoint.every",
        "checkpoint.keep", "observe.log_level", "launch.processes", "strategy.plugin", "backend.plugin"})
    EXPECT_TRUE(may_change(key)) << key;
}

TEST(Schema, MistakesOfAPluginAreNamed) {
  const auto problems = [](const pl_option& option) {
    return schema_problems(std::span(&option, 1), "task");
  };
  EXPECT_EQ(problems(make_option("model.n_head", PL_OPTION_INT, "12")), Problems{});
  EXPECT_EQ(problems(make_option("plugin", PL_OPTION_INT, "12")),
            Problems{"option plugin: its key is taken"});
  EXPECT_EQ(problems(make_option("plugin.x", PL_OPTION_INT, "12")),
            Problems{"option plugin.x: is a value, and plugin would make it a table"});
  EXPECT_EQ(problems(make_option("a..b", PL_OPTION_INT, "12")),
            Problems{"option a..b: its key is not made of letters, digits, _ and - between dots"});
  EXPECT_EQ(problems(make_option("a", 99, "12")), Problems{"option a: its type 99 is unknown"});
  EXPECT_EQ(problems(make_option("a", PL_OPTION_INT, "x")),
            Problems{"option a: its default x is not a TOML value"});
  EXPECT_EQ(problems(make_option("a", PL_OPTION_INT, "\"x\"")),
            Problems{"option a: its default \"x\" must be an integer, is a string"});
  EXPECT_EQ(problems(make_option("a", PL_OPTION_INT, "1", PL_OPTION_REQUIRED)),
            Problems{"option a: it is required and has a default"});
  EXPECT_EQ(problems(make_option("a", PL_OPTION_INT, "1", 1u << 30)),
            Problems{"option a: it has unknown flags"});
  EXPECT_EQ(problems(make_option("a", PL_OPTION_STRING, "\"\"", PL_OPTION_HAS_MINIMUM)),
            Problems{"option a: a range needs a number"});
  EXPECT_EQ(problems(make_option("a", PL_OPTION_INT, "1", PL_OPTION_ABOVE_MINIMUM)),
            Problems{"option a: ABOVE_MINIMUM without HAS_MINIMUM"});
  pl_option out_of_range = make_option("a", PL_OPTION_INT, "0", PL_OPTION_HAS_MINIMUM);
  out_of_range.minimum = 1;
  EXPECT_EQ(problems(out_of_range), Problems{"option a: its default 0 out of range: must be at least 1"});
  pl_option no_help = make_option("a", PL_OPTION_INT, "0");
  no_help.help = {};
  EXPECT_EQ(problems(no_help), Problems{"option a: it has no help"});
  const pl_option twice[] = {make_option("a", PL_OPTION_INT, "0"), make_option("a", PL_OPTION_INT, "0")};
  EXPECT_EQ(schema_problems(twice, "task"), Problems{"option a: its key is taken"});
}

// A plugin built with another minor version has another sizeof(pl_option).
TEST(Schema, OptionsOfOtherSizesAreTakenAsTheyCome) {
  const auto options = task_options();
  for (const size_t size : {offsetof(pl_option, minimum), sizeof(pl_option), sizeof(pl_option) + 24}) {
    std::vector<char> bytes(size * options.size(), '\x7f');
    for (size_t i = 0; i < options.size(); ++i) {
      pl_option option = options[i];
      option.struct_size = static_cast<uint32_t>(size);
      std::memcpy(bytes.data() + i * size, &option, std::min(size, sizeof(option)));
    }
    const std::vector<pl_option> copies =
        copy_options(reinterpret_cast<const pl_option*>(bytes.data()), options.size());
    ASSERT_EQ(copies.size(), options.size());
    for (size_t i = 0; i < options.size(); ++i) {
      EXPECT_EQ(view(copies[i].key), view(options[i].key));
      EXPECT_EQ(copies[i].struct_size, sizeof(pl_option));
      EXPECT_EQ(copies[i].maximum, 0);
      EXPECT_EQ(copies[i].minimum, size >= sizeof(pl_option) ? options[i].minimum : 0);
    }
  }
  EXPECT_TRUE(copy_options(nullptr, 0).empty());
}

TEST(Numbers, AreWrittenShortAndReadBackExactly) {
  EXPECT_EQ(to_toml(1.0), "1.0");
  EXPECT_EQ(to_toml(0.1), "0.1");
  EXPECT_EQ(to_toml(3e-4), "3e-4");
  EXPECT_EQ(to_toml(1e-8), "1e-8");
  EXPECT_EQ(to_toml(1e100), "1e100");
  EXPECT_EQ(to_toml(-0.0), "-0.0");
  for (const double number :
       {1e-5, 1.0 / 3, 65536.0, 6.02214076e23, 1e22, -1e-300, 5e-324, 1.7976931348623157e308, 123456789.0}) {
    const std::optional<Literal> literal = parse_value(to_toml(number));
    ASSERT_TRUE(literal) << to_toml(number);
    EXPECT_EQ(literal->kind, Literal::Kind::kFloat);
    EXPECT_EQ(literal->number, number);
  }
}

TEST(Strings, AreQuotedSoThatTheyReadBack) {
  std::string all;
  for (char c = 1; c < 127; ++c) all += c;
  all += "\x7f größer 🎈";
  const std::optional<Literal> literal = parse_value(to_toml(std::string_view(all)));
  ASSERT_TRUE(literal);
  EXPECT_EQ(literal->text, all);
}

TEST(Strings, AreCutBetweenCharacters) {
  EXPECT_EQ(shorten("abc", 3), "abc");
  EXPECT_EQ(shorten("abcd", 3), "abc...");
  EXPECT_EQ(shorten("aäb", 2), "a...");
}

}  // namespace
}  // namespace pipeline::config
