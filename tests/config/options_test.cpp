#include "core/config/option.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.hpp"
#include "core/config/sources.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

TEST(CoreOptions, ContradictNeitherThemselvesNorEachOther) {
  for (const pl_option& option : core_options()) {
    const std::string key(view(option.key));
    EXPECT_EQ(std::ranges::count(key, '.'), 1) << key;
    EXPECT_TRUE(is_dotted_key(key)) << key;
    EXPECT_FALSE(view(option.help).empty()) << key;
    EXPECT_LE(view(option.help).size(), 110u) << key;
    EXPECT_NO_THROW(default_value(option)) << key;
    EXPECT_FALSE((option.flags & PL_OPTION_REQUIRED) && option.default_value.len > 0) << key;
    EXPECT_FALSE((option.flags & PL_OPTION_ABOVE_MINIMUM) && !(option.flags & PL_OPTION_HAS_MINIMUM)) << key;
    EXPECT_EQ(
        std::ranges::count_if(core_options(), [&](const pl_option& other) { return view(other.key) == key; }),
        1)
        << key;
  }
}

// Scripts and people rely on these names.
TEST(CoreOptions, HaveTheSettledKeys) {
  std::istringstream keys(
      "run.name run.dir run.seed run.reproducible run.device task.plugin strategy.plugin "
      "backend.plugin optimizer.lr schedule.lr_scaling schedule.base_batch loader.workers "
      "loader.prefetch loader.pin_memory train.global_batch train.batch_per_device train.micro_batch "
      "train.accumulation_steps train.max_steps train.max_epochs train.max_seconds train.precision "
      "train.clip_grad_norm train.activation_checkpointing train.init_from evaluate.every "
      "checkpoint.every checkpoint.keep observe.log_level launch.processes launch.threads "
      "launch.max_restarts launch.stall_seconds plugins.paths stage.name stage.kind stage.init_from");
  for (std::string key; keys >> key;)
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

// A plugin's schema is checked when it is loaded; here it must not be taken for the user's mistake.
TEST(Schema, ADefaultThatDoesNotFitIsTheAuthorsMistake) {
  const auto message = [](const pl_option& option) -> std::string {
    try {
      default_value(option);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), PL_ERROR_FAILED);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(make_option("a", PL_OPTION_INT, "12")), "");
  EXPECT_EQ(message(make_option("a", PL_OPTION_INT, "")), "");
  EXPECT_EQ(message(make_option("a", PL_OPTION_INT, "x")), "option 'a': default `x` is not one TOML value");
  EXPECT_EQ(message(make_option("a", PL_OPTION_INT, "\"x\"")),
            "option 'a': default `\"x\"` must be an integer, is a string");
  EXPECT_EQ(message(make_option("a", PL_OPTION_INT, "1\nb = 2")),
            "option 'a': default `1\nb = 2` is not one TOML value");
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
