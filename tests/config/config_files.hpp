#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"
#include "tests/support/temporary_folder.hpp"

namespace pipeline::config {

// A test that runs inside an empty folder of its own, so that messages name files as the test wrote them.
class ConfigFiles : public testing::Test {
 protected:
  void SetUp() override {
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_.path());
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  static void write(const std::filesystem::path& name, std::string_view text) {
    if (name.has_parent_path()) std::filesystem::create_directories(name.parent_path());
    // A new file is faster than one cut to nothing on file systems that then wait for the disk.
    std::filesystem::remove(name);
    std::ofstream(name, std::ios::binary) << text;
  }

  // Loads `text` as x.toml.
  static Config load_text(std::string_view text, std::vector<std::string> sets = {}) {
    write("x.toml", text);
    return load({.file = "x.toml", .sets = std::move(sets), .stage = ""});
  }

  // What is wrong with x.toml, one line for each problem; "" if nothing is.
  static std::string problems(std::string_view text, std::vector<std::string> sets = {}) {
    return problems_of([&] { load_text(text, std::move(sets)); });
  }

  // What is wrong with one argument of --set over a file that is right.
  static std::string set_problem(const std::string& argument) {
    return problems("task.plugin = 't'\n", {argument});
  }

  template <class Function>
  static std::string problems_of(Function&& function) {
    try {
      function();
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.code(), PL_ERROR_CONFIG);
      return error.what();
    }
    return "";
  }

  tests::TemporaryFolder folder_;

 private:
  std::filesystem::path before_;
};

}  // namespace pipeline::config
