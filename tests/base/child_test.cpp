#include "core/base/child.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace pipeline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Child, ReturnsItsValueAndWhatItPrinted) {
  const ChildResult result = run_in_child(seconds(60), [] {
    std::printf("out ");
    std::fflush(stdout);
    std::fprintf(stderr, "err");
    return std::string(100'000, 'x');  // more than a pipe holds
  });
  EXPECT_TRUE(result.ok);
  EXPECT_EQ(result.value, std::string(100'000, 'x'));
  EXPECT_EQ(result.output, "out err");
}

TEST(Child, ManyPrintedBytesDoNotBlockIt) {
  const ChildResult result = run_in_child(seconds(60), [] {
    std::fputs(std::string(300'000, 'y').c_str(), stdout);
    return std::string("done");
  });
  EXPECT_EQ(result.value, "done");
  EXPECT_EQ(result.output.size(), 300'000u);
}

TEST(Child, SaysHowItFailed) {
  EXPECT_EQ(run_in_child(seconds(60), []() -> std::string { throw std::runtime_error("no luck"); }).problem,
            "no luck");
  EXPECT_EQ(run_in_child(seconds(60), []() -> std::string { ::_exit(4); }).problem,
            "ended the process with exit code 4");
  EXPECT_EQ(run_in_child(seconds(60), []() -> std::string { std::abort(); }).problem,
            "ended by signal 6 (Aborted)");
  EXPECT_EQ(run_in_child(milliseconds(100),
                         []() -> std::string {
                           for (;;) ::sleep(1);
                         })
                .problem,
            "did not finish within 0.1 seconds");
}

TEST(Child, ChangesNothingHere) {
  static int value = 1;
  run_in_child(seconds(60), [] {
    value = 2;
    return std::string();
  });
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace pipeline
