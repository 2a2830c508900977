#include "core/report/run_state.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class States : public testing::Test {
 protected:
  fs::path run(const std::string& name) {
    fs::create_directories(folder_ / (name + "/logs"));
    folder_.write(name + "/.lock", std::to_string(::getpid()) + "\n");
    return folder_ / name;
  }
  void steps(const std::string& name, int count) {
    std::string lines;
    for (int i = 1; i <= count; ++i)
      lines += R"({"step":)" + std::to_string(i) +
               R"(,"loss":0.5})"
               "\n";
    folder_.write(name + "/metrics.jsonl", lines);
  }

  tests::FilesFolder folder_;
};

TEST_F(States, SayWhatBecameOfARun) {
  const fs::path folder = run("a");
  EXPECT_EQ(state_of(folder), RunState::begun);
  steps("a", 7);
  EXPECT_EQ(state_of(folder), RunState::cut_off);
  folder_.write("a/summary.json", R"({"steps": 5})");
  EXPECT_EQ(state_of(folder), RunState::cut_off) << "it went on after it was stopped at step 5";
  folder_.write("a/summary.json", R"({"steps": 7})");
  EXPECT_EQ(state_of(folder), RunState::stopped);
  folder_.write("a/diverged.txt", "");
  EXPECT_EQ(state_of(folder), RunState::diverged);
  folder_.write("a/finished.txt", "");
  EXPECT_EQ(state_of(folder), RunState::finished);

  const int held = ::open((folder / ".lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(state_of(folder), RunState::running);
  ::close(held);
  EXPECT_EQ(state_of(folder), RunState::finished);
}

TEST_F(States, OfAllRunsAreListed) {
  run("one");
  steps("one", 2);
  fs::create_directories(folder_ / "one/checkpoints/step-00000001");
  fs::create_directories(folder_ / "one/checkpoints/step-00000002");
  run("group/two");
  run("group/two/pretrain");
  steps("group/two/pretrain", 1);
  fs::create_directories(folder_ / "none");
  const auto runs = find_runs(folder_.path());
  EXPECT_THAT(runs, ElementsAre(folder_ / "group/two/pretrain", folder_ / "one"));
  const std::string text = list_runs(runs);
  EXPECT_THAT(text, HasSubstr("cut off  2     0.5000              step-00000002  0:0"));
  EXPECT_TRUE(find_runs(folder_ / "none").empty());
  EXPECT_THAT(tests::message_of<Error>([&] { find_runs(folder_ / "x"); }),
              HasSubstr("there is no such folder"));
}

}  // namespace
}  // namespace pipeline::report
