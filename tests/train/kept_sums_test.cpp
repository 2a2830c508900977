#include "core/train/results/kept_sums.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinity = std::numeric_limits<double>::infinity();

KeptSums some_sums() {
  return {.split = PL_SPLIT_VAL,
          .samples = 3,
          .available = 5,
          .metrics = {{.name = "perplexity",
                       .source = "loss",
                       .help = {},
                       .aggregate = PL_AGGREGATE_EXP_MEAN,
                       .better = PL_BETTER_LOWER}},
          .values = {{"", "loss", 0.1, 1.0 / 3}, {"a", "loss", 5e-324, 1e300}},
          .records = 0,
          .files = {"table.csv"}};
}

std::string problem_with(const std::string& text) {
  return tests::message_of<Error>([&] { parse_sums(text, "x.json"); });
}

// some_sums() with `from` replaced in its text.
std::string problem_after(const std::string& from, const std::string& to) {
  std::string text = to_text(some_sums());
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from << " is not in " << text;
  return problem_with(text.replace(at, from.size(), to));
}

TEST(KeptSums, ComeBackToTheBit) {
  const KeptSums sums = parse_sums(to_text(some_sums()), "x.json");
  EXPECT_EQ(sums.split, PL_SPLIT_VAL);
  EXPECT_EQ(sums.samples, 3u);
  EXPECT_EQ(sums.available, 5u);
  ASSERT_EQ(sums.metrics.size(), 1u);
  EXPECT_EQ(sums.metrics[0].source, "loss");
  EXPECT_EQ(sums.metrics[0].aggregate, PL_AGGREGATE_EXP_MEAN);
  ASSERT_EQ(sums.values.size(), 2u);
  EXPECT_EQ(sums.values[0].sum, 0.1);
  EXPECT_EQ(sums.values[0].weight, 1.0 / 3);
  EXPECT_EQ(sums.values[1].sum, 5e-324);
  EXPECT_EQ(sums.files, std::vector<std::string>{"table.csv"});
}

TEST(KeptSums, WhatIsNotFiniteComesBackToo) {
  KeptSums sums = some_sums();
  sums.values = {{"", "a", kNan, 1}, {"", "b", kInfinity, 1}, {"", "c", -kInfinity, kNan}};
  const KeptSums back = parse_sums(to_text(sums), "x.json");
  EXPECT_TRUE(std::isnan(back.values[0].sum));
  EXPECT_EQ(back.values[1].sum, kInfinity);
  EXPECT_EQ(back.values[2].sum, -kInfinity);
  EXPECT_TRUE(std::isnan(back.values[2].weight));
}

TEST(KeptSums, DamageIsNamedWithItsKey) {
  EXPECT_THAT(problem_with(""), HasSubstr("x.json: not valid JSON"));
  EXPECT_THAT(problem_with("{\"split\": \"te"), HasSubstr("x.json: not valid JSON"));
  EXPECT_EQ(problem_with("[1]"), "x.json: holds [1], must be an object");
  EXPECT_EQ(problem_with("{}"), "x.json: 'split' is missing, must be train, val or test");
  EXPECT_EQ(problem_after("\"val\"", "\"all\""), "x.json: 'split' is \"all\", must be train, val or test");
  EXPECT_EQ(problem_after("\"of\":5", "\"off\":5"), "x.json: 'of' is missing, must be a count");
  EXPECT_EQ(problem_after("\"of\":5", "\"of\":null"), "x.json: 'of' is null, must be a count");
  EXPECT_EQ(problem_after("\"of\":5", "\"of\":2"),
            "x.json: 'samples' is 3, must be at most 'of', which is 2");
  EXPECT_EQ(problem_after("\"samples\":3", "\"samples\":-3"), "x.json: 'samples' is -3, must be a count");
  EXPECT_EQ(problem_after("\"samples\":3", "\"samples\":\"3\""),
            "x.json: 'samples' is \"3\", must be a count");
  EXPECT_EQ(problem_after("\"aggregate\":3", "\"aggregate\":4"),
            "x.json: 'aggregate' is 4, must be 1, 2 or 3");
  EXPECT_EQ(problem_after("\"source\":\"loss\"", "\"source\":[]"), "x.json: 'source' is [], must be a text");
  EXPECT_EQ(problem_after("{\"aggregate\"", "5,{\"aggregate\""), "x.json: 'name' is missing, must be a text");
  EXPECT_EQ(problem_after("\"values\":[", "\"values\":{},\"v\":["), "x.json: 'values' is {}, must be a list");
  EXPECT_EQ(problem_after("0.1", "null"),
            "x.json: [\"\",\"loss\",null,0.3333333333333333] in 'values': must be a group, a name, a sum and "
            "a weight");
  EXPECT_EQ(problem_after("0.1", "\"much\""),
            "x.json: [\"\",\"loss\",\"much\",0.3333333333333333] in 'values': must be a group, a name, a sum "
            "and a weight");
  EXPECT_EQ(
      problem_after("\"loss\",0.1,", "\"loss\","),
      "x.json: [\"\",\"loss\",0.3333333333333333] in 'values': must be a group, a name, a sum and a weight");
  EXPECT_EQ(problem_after("[\"a\",\"loss\"", "[\"\",\"loss\""),
            "x.json: 'loss' of group '' is twice in 'values'");
  EXPECT_EQ(problem_after("\"table.csv\"", "7"), "x.json: 7 in 'files': must be a name");
}

TEST(KeptSums, AFileThatCannotBeReadIsNamedWithTheRemedy) {
  const tests::FilesFolder folder;
  EXPECT_THAT(tests::message_of<Error>([&] { read_sums(folder / "gone.json", "make it again"); }),
              testing::AllOf(HasSubstr("gone.json: cannot be read: No such file or directory"),
                             EndsWith(": make it again")));
  const std::string damaged = folder.write("damaged.json", "{}");
  EXPECT_EQ(tests::message_of<Error>([&] { read_sums(damaged, "make it again"); }),
            damaged + ": 'split' is missing, must be train, val or test: make it again");
}

TEST(KeptSums, NamesThatAreNotUtf8AreRefused) {
  KeptSums sums = some_sums();
  sums.values[0].name = "\xff";
  EXPECT_THAT(tests::message_of<Error>([&] { to_text(sums); }), HasSubstr("must be UTF-8"));
}

}  // namespace
}  // namespace pipeline::train
