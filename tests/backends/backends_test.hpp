// What the suites over all backends share.
#pragma once

#include <gtest/gtest.h>

#include "tests/backends/ranks.hpp"

namespace pipeline::tests {

// A test of every backend.
class BackendTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!was_built(tested())) GTEST_SKIP() << tested().name << " was not built";
  }
  static const BackendUnderTest& tested() { return backend(GetParam()); }
};

// Tests of the backends whose ranks can be killed.
class ProcessTest : public BackendTest {};

inline const auto kEveryBackend = ::testing::Values("fake", "gloo", "shm");
inline const auto kProcessBackends = ::testing::Values("gloo", "shm");
inline std::string backend_name(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

}  // namespace pipeline::tests
