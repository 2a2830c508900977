// What somebody sees to whom permissions apply: root may do everything.
#pragma once

#include <grp.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/child_process.hpp"

namespace pipeline::structures {

// Runs `work` and its expectations in a child process, as root as nobody, to whom the folders and all that is
// in them are given.
inline void as_ordinary_user(std::initializer_list<std::string> folders, const std::function<void()>& work) {
  constexpr uid_t kNobody = 65534;
  const bool root = ::geteuid() == 0;
  for (const auto& folder : folders) {
    if (!root) break;
    ASSERT_EQ(::chown(folder.c_str(), kNobody, kNobody), 0) << folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      ASSERT_EQ(::lchown(entry.path().c_str(), kNobody, kNobody), 0) << entry.path();
    }
  }
  const pid_t child = tests::in_child([&] {
    if (root && (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))
      return 101;
    work();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  ASSERT_EQ(tests::status_of(child), 0) << "its failures are above";
}

}  // namespace pipeline::structures
