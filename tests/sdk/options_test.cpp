#include "fake_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pipeline/plugin.hpp>

#include <limits>

namespace {

using testing::HasSubstr;

struct ModelConfig {
  int64_t n_head = 12;
  uint32_t width = 768;
  std::string activation = "gelu";
  void describe(pipeline::Options& o) {
    o("n_head", n_head, "attention heads").min(1);
    o("width", width, "of the residual stream").unit("elements");
    o("activation", activation, "of the feed-forward part").choices({"gelu", "relu"});
  }
  void validate(const pipeline::ConfigErrors& errors) const {
    if (width % n_head != 0) errors("n_head", pipeline::concat("must divide width (", width, ")"));
  }
};

struct Everything {
  bool flag = true;
  double rate = 1e-4;
  float share = 0.5f;
  double huge = 1e300;
  double whole = 3;
  std::string text = "a \"quoted\" \\ line\nand a tab\t\x7f";
  std::filesystem::path folder;
  std::vector<int64_t> sizes{1, -2};
  std::vector<double> betas{0.9, 1.0};
  std::vector<std::string> columns{"document", "sum\"mary"};
  std::vector<std::filesystem::path> files;
  ModelConfig model;
  void describe(pipeline::Options& o) {
    o("flag", flag, "a flag").may_change();
    o("rate", rate, "a rate").above(0).below(1);
    o("share", share, "a share").min(0).max(1);
    o("huge", huge, "a huge number");
    o("whole", whole, "a float that is whole");
    o("text", text, "any text");
    o("folder", folder, "a folder").required();
    o("sizes", sizes, "sizes");
    o("betas", betas, "betas");
    o("columns", columns, "columns");
    o("files", files, "files");
    o.group("model", model);
  }
};

const pl_option& option(const std::vector<pl_option>& options, const std::string& key) {
  for (const pl_option& o : options) {
    if (fake::text(o.key) == key) return o;
  }
  throw std::runtime_error("no option " + key);
}

struct DataConfig {
  std::filesystem::path train;
  void describe(pipeline::Options& o) { o("train", train, "what to learn from"); }
  void validate(const pipeline::ConfigErrors& errors) const {
    if (errors.trains() && train.empty()) errors("train", "must be given");
  }
};

struct WithData {
  DataConfig data;
  void describe(pipeline::Options& o) { o.group("data", data); }
};

class OptionsTest : public testing::Test {
 protected:
  void SetUp() override { pipeline::globals().host = fake::host(); }
  void TearDown() override { EXPECT_EQ(fake::live_errors(), 0); }

  template <class T>
  static T read(const std::string& toml) {
    const auto& options = pipeline::schema_of<T>();
    const pl_config config(options.data(), options.size(), toml);
    return pipeline::read_config<T>(&config);
  }
  template <class T>
  static std::string problem(const std::string& toml) {
    try {
      read<T>(toml);
    } catch (const pipeline::Error& error) {
      EXPECT_EQ(error.code(), PL_ERROR_CONFIG);
      return error.what();
    }
    return "";
  }
};

TEST_F(OptionsTest, schema_says_type_default_range_choices_and_unit) {
  const auto& options = pipeline::schema_of<Everything>();
  ASSERT_EQ(options.size(), 14u);
  for (const pl_option& o : options) EXPECT_EQ(o.struct_size, sizeof(pl_option));

  const pl_option& rate = option(options, "rate");
  EXPECT_EQ(rate.type, PL_OPTION_FLOAT);
  EXPECT_EQ(rate.flags, PL_OPTION_HAS_MINIMUM | PL_OPTION_ABOVE_MINIMUM | PL_OPTION_HAS_MAXIMUM |
                            PL_OPTION_BELOW_MAXIMUM);
  EXPECT_EQ(rate.minimum, 0);
  EXPECT_EQ(rate.maximum, 1);
  EXPECT_EQ(fake::text(rate.default_value), "1e-4");

  EXPECT_EQ(option(options, "flag").flags, PL_OPTION_MAY_CHANGE);
  EXPECT_EQ(option(options, "folder").type, PL_OPTION_PATH);
  EXPECT_EQ(option(options, "folder").flags, PL_OPTION_REQUIRED);
  EXPECT_EQ(fake::text(option(options, "folder").default_value), "");
  EXPECT_EQ(fake::text(option(options, "whole").default_value), "3.0");
  EXPECT_EQ(fake::text(option(options, "sizes").default_value), "[1, -2]");
  EXPECT_EQ(option(options, "files").type, PL_OPTION_PATH_LIST);

  const pl_option& width = option(options, "model.width");
  EXPECT_EQ(width.type, PL_OPTION_INT);
  EXPECT_EQ(fake::text(width.unit), "elements");
  EXPECT_EQ(width.minimum, 0);
  EXPECT_EQ(width.maximum, std::numeric_limits<uint32_t>::max());

  const pl_option& activation = option(options, "model.activation");
  ASSERT_EQ(activation.choice_count, 2u);
  EXPECT_EQ(fake::text(activation.choices[1]), "relu");
  EXPECT_EQ(fake::text(activation.help), "of the feed-forward part");
}

TEST_F(OptionsTest, defaults_read_back_as_they_were) {
  const Everything expected;
  const auto got = read<Everything>("folder = '/data'");
  EXPECT_EQ(got.flag, expected.flag);
  EXPECT_EQ(got.rate, expected.rate);
  EXPECT_EQ(got.share, expected.share);
  EXPECT_EQ(got.huge, expected.huge);
  EXPECT_EQ(got.whole, expected.whole);
  EXPECT_EQ(got.text, expected.text);
  EXPECT_EQ(got.folder, "/data");
  EXPECT_EQ(got.sizes, expected.sizes);
  EXPECT_EQ(got.betas, expected.betas);
  EXPECT_EQ(got.columns, expected.columns);
  EXPECT_TRUE(got.files.empty());
  EXPECT_EQ(got.model.n_head, 12);
}

TEST_F(OptionsTest, what_only_training_needs_may_be_missing_elsewhere) {
  EXPECT_THAT(problem<WithData>(""), HasSubstr("data.train"));
  EXPECT_THAT(problem<DataConfig>(""), HasSubstr("must be given"));
  const auto& options = pipeline::schema_of<WithData>();
  const pl_config config(options.data(), options.size(), "");
  for (const uint32_t purpose : {PL_PURPOSE_EVALUATE, PL_PURPOSE_PREDICT, PL_PURPOSE_EXPORT})
    EXPECT_EQ(pipeline::read_config<WithData>(&config, purpose).data.train, "");
}

TEST_F(OptionsTest, the_users_values_are_read) {
  const auto got = read<Everything>(R"(
    flag = false
    rate = 0.25
    share = 1
    text = "é"
    folder = "x"
    sizes = [5]
    columns = []
    files = ["a", "b"]
    model.n_head = 4
    model.activation = "relu")");
  EXPECT_FALSE(got.flag);
  EXPECT_EQ(got.rate, 0.25);
  EXPECT_EQ(got.share, 1.0f);
  EXPECT_EQ(got.text, "é");
  EXPECT_EQ(got.sizes, std::vector<int64_t>{5});
  EXPECT_TRUE(got.columns.empty());
  EXPECT_EQ(got.files, (std::vector<std::filesystem::path>{"a", "b"}));
  EXPECT_EQ(got.model.n_head, 4);
  EXPECT_EQ(got.model.activation, "relu");
}

TEST_F(OptionsTest, validate_names_the_place_of_the_value) {
  EXPECT_EQ(problem<ModelConfig>("n_head = 7"), "test.toml:1: task.n_head: must divide width (768)");
  EXPECT_EQ(problem<Everything>("folder = 'x'\nmodel.n_head = 7"),
            "test.toml:1: task.model.n_head: must divide width (768)");
}

struct Twice {
  int64_t a = 1;
  void describe(pipeline::Options& o) {
    o("a", a, "one");
    o("a", a, "two");
  }
};

TEST_F(OptionsTest, declaring_a_key_twice_is_an_error) {
  try {
    pipeline::schema_of<Twice>();
    FAIL();
  } catch (const pipeline::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("option a is declared twice"));
  }
}

TEST_F(OptionsTest, special_floats_are_toml) {
  EXPECT_EQ(pipeline::to_toml(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(pipeline::to_toml(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(pipeline::to_toml(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(pipeline::to_toml(1e21), "1e+21");
  EXPECT_EQ(pipeline::to_toml(0.1), "0.1");
}

}  // namespace
