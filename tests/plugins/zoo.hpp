#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <test_paths.hpp>

#include "core/base/error.hpp"
#include "core/plugins/plugin.hpp"

namespace pipeline::plugins {

inline std::filesystem::path zoo(const std::string& name) {
  return std::filesystem::path(PIPELINE_BUILD_DIR "/tests/zoo") / (name + ".so");
}

// The message that loading a plugin ends in, without the path in front; empty when it loads.
inline std::string problem_of(const std::filesystem::path& file) {
  try {
    Plugin::load(file);
    return {};
  } catch (const Error& e) {
    const std::string message = e.what(), prefix = file.string() + ": ";
    EXPECT_TRUE(message.starts_with(prefix)) << message;
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
  }
}

}  // namespace pipeline::plugins
