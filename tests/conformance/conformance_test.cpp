// Every plugin of the product keeps the promises of pipeline.h, and so do the frozen ones, those in C that
// `pipeline new` copies, and the fake backend. configs/NAME.toml configures a plugin that needs options.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <test_paths.hpp>
#include <vector>

#include "core/plugins/check/check_plugin.hpp"

namespace pipeline::plugins {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> built_plugins() {
  const fs::path build(PIPELINE_BUILD_DIR), tests = build / "tests/plugins";
  std::vector<fs::path> found{tests / "tasks/linear_regression.so", tests / "strategies/plain_sgd.so",
                              tests / "backends/fake.so", tests / "optimizers/sign_sgd.so"};
  for (const char* on_torch : {"optimizers/signum.so", "tasks/pairs.so"})
    if (fs::exists(tests / on_torch)) found.push_back(tests / on_torch);
  for (const char* root : {"lib/pipeline/plugins", "tests/frozen_plugins"}) {
    for (const char* kind : {"tasks", "strategies", "backends"}) {
      const fs::path folder = build / root / kind;
      if (!fs::is_directory(folder)) continue;
      for (const auto& file : fs::directory_iterator(folder))
        if (file.path().extension() == ".so") found.push_back(file.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string test_name(const fs::path& file) {
  std::string name = fs::relative(file, PIPELINE_BUILD_DIR).replace_extension().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Conformance : public ::testing::TestWithParam<fs::path> {};

TEST_P(Conformance, KeepsItsPromises) {
  CheckArgs args;
  args.plugin = GetParam();
  const fs::path folder = fs::path(PIPELINE_SOURCE_DIR) / "tests/conformance";
  const fs::path config = folder / "configs" / (args.plugin.stem().string() + ".toml");
  if (fs::exists(config)) {
    args.config = config.string();
    fs::current_path(folder);  // relative paths in it start here
  }
  const CheckReport report = check_plugin(args);
  EXPECT_TRUE(report.passed()) << report.text;
  EXPECT_GT(report.checks.size(), 6u) << report.text;
}

INSTANTIATE_TEST_SUITE_P(Built, Conformance, ::testing::ValuesIn(built_plugins()),
                         [](const ::testing::TestParamInfo<fs::path>& tested) {
                           return test_name(tested.param);
                         });

}  // namespace
}  // namespace pipeline::plugins
