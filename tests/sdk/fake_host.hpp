#pragma once

#include <pipeline.h>

#include <toml++/toml.h>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// A host for one test: options come from TOML text, what a plugin says is kept. Only the C ABI.
struct pl_config {
  // `text`: what the user wrote, over the defaults of `options`. Throws std::runtime_error for a default that
  // is no TOML.
  pl_config(const pl_option* options, uint64_t count, const std::string& text);

  toml::table values;
  std::map<std::string, bool> set_by_user;
  std::string prefix = "task.";
  // Kept for what config_* hands out.
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<int64_t>> ints;
  std::map<std::string, std::vector<double>> floats;
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, std::vector<pl_str>> list_views;
};

struct pl_context {
  pl_context();

  pl_run_info run{};
  bool cancelled = false;
  std::mutex mutex;
  std::vector<std::pair<uint32_t, std::string>> lines;
  std::map<std::string, std::pair<double, double>> metrics;
  std::vector<std::string> progress;
};

namespace fake {

const pl_host& host();

// Errors that were made and not freed yet: 0 at the end of each test.
int live_errors();

struct Failure {
  uint32_t code = 0;  // 0: success
  std::string message;
};

// What a slot returned; frees it.
Failure take(pl_error* error);

inline pl_str str(const std::string& text) { return {text.data(), text.size()}; }
inline std::string text(pl_str s) { return std::string(s.ptr == nullptr ? "" : s.ptr, s.len); }

}  // namespace fake

// Fails the test unless the slot succeeded.
#define EXPECT_OK(call) EXPECT_EQ(fake::take(call).message, "")
#define ASSERT_OK(call) ASSERT_EQ(fake::take(call).message, "")
