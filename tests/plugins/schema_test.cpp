#include "core/plugins/plugin.hpp"

#include <gtest/gtest.h>

#include "core/base/abi_values.hpp"
#include "tests/plugins/zoo.hpp"

namespace pipeline::plugins {
namespace {

TEST(Schema, ContradictionsAreRefusedAtLoad) {
  EXPECT_EQ(problem_of(zoo("option_key")),
            "option 'Model': the key must be lower-case words separated by dots, like \"model.n_head\"");
  EXPECT_EQ(problem_of(zoo("option_type")), "option 'size': type 77 is unknown");
  EXPECT_EQ(problem_of(zoo("option_flags")), "option 'size': flags 0x1000 has bits that are unknown");
  EXPECT_EQ(problem_of(zoo("option_no_default")),
            "option 'size': has no default and is not marked PL_OPTION_REQUIRED");
  EXPECT_EQ(problem_of(zoo("option_two_minds")), "option 'size': is required and has a default, 1");
  EXPECT_EQ(problem_of(zoo("option_not_toml")), "option 'act': default `gelu` is not one TOML value");
  EXPECT_EQ(problem_of(zoo("option_wrong_type")),
            "option 'size': default `1.5` must be an integer, is a number with a decimal point");
  EXPECT_EQ(problem_of(zoo("option_range")), "option 'size': default `1` out of range: must be at least 2");
  EXPECT_EQ(problem_of(zoo("option_choice")), "option 'act': default `\"tanh\"` is not one of relu or gelu");
  EXPECT_EQ(problem_of(zoo("option_twice")), "option 'a': occurs twice");
  EXPECT_EQ(problem_of(zoo("option_and_table")), "option 'a': is a value and, because of 'a.b', a table");
}

// Options of a later header are longer; the stride is theirs.
TEST(Schema, LongerOptionsAreReadWithTheirOwnStride) {
  struct Longer {
    pl_option known;
    double later;
  };
  const auto make = [](const char* key, const char* value) {
    Longer option{};
    option.known.struct_size = sizeof(Longer);
    option.known.type = PL_OPTION_INT;
    option.known.key = to_pl(key);
    option.known.default_value = to_pl(value);
    option.later = 1;
    return option;
  };
  const Longer options[] = {make("a", "1"), make("b", "2"), make("c.d", "3")};
  pl_plugin table{};
  table.options = &options[0].known;
  table.option_count = 3;
  const std::vector<pl_option> copies = copy_options(table);
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_EQ(view(copies[1].key), "b");
  EXPECT_EQ(view(copies[2].key), "c.d");
  EXPECT_EQ(view(copies[2].default_value), "3");
}

TEST(Schema, StrangeSizesAreRefused) {
  pl_option option{};
  option.struct_size = 8;
  pl_plugin table{};
  table.options = &option;
  table.option_count = 1;
  EXPECT_THROW(copy_options(table), Error);
  table.options = nullptr;
  EXPECT_THROW(copy_options(table), Error);
}

}  // namespace
}  // namespace pipeline::plugins
