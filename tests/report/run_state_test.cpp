#include "core/report/run_state.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>

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
  const std::string text = list_runs(runs).table;
  EXPECT_THAT(text, HasSubstr("cut off  2     0.5000              step-00000002  0:0"));
  EXPECT_TRUE(find_runs(folder_ / "none").empty());
  EXPECT_THAT(tests::message_of<Error>([&] { find_runs(folder_ / "x"); }),
              HasSubstr("there is no such folder"));
}

TEST_F(States, OneThatCannotBeReadDoesNotHideTheOthers) {
  run("a\x1b[2Jb\nc");
  steps("a\x1b[2Jb\nc", 2);
  run("damaged");
  folder_.write("damaged/metrics.jsonl", "no JSON\n");
  run("pipe");
  ASSERT_EQ(::mkfifo((folder_ / "pipe/metrics.jsonl").c_str(), 0600), 0);
  fs::create_symlink("loop", folder_ / "loop");
  const RunList list = list_runs(find_runs(folder_.path()));
  EXPECT_THAT(list.table, HasSubstr("/a\\x1b[2Jb\\x0ac  cut off     2     0.5000"));
  EXPECT_THAT(list.table, HasSubstr("/damaged         unreadable\n"));
  EXPECT_THAT(list.problems, ElementsAre(folder_ / "damaged/metrics.jsonl:1: not valid JSON at byte 2",
                                         folder_ / "pipe/metrics.jsonl: is a FIFO, must be a file"));
}

TEST_F(States, ALossThatIsNoNumberIsShown) {
  run("a");
  folder_.write("a/metrics.jsonl",
                "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":\"NaN\"}\n{\"step\":3,\"lo");
  EXPECT_THAT(list_runs({folder_ / "a"}).table, testing::ContainsRegex("cut off +2 +nan "));
}

}  // namespace
}  // namespace pipeline::report
