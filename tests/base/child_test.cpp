#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "core/base/child.hpp"
#include "core/base/last_words.hpp"
#include "core/base/thread.hpp"

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

// What a process says that cannot throw any more.

void in_thread(const char* name, std::function<void()> work) { start_thread(name, std::move(work)).join(); }

TEST(LastWordsDeathTest, NameThreadAndPhase) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with_words = [](const std::function<void()>& work) {
    const LastWords words("rank 3: ");
    note_phase("saving", 12);
    work();
  };
  EXPECT_EXIT(with_words([] { in_thread("pl-write", [] { throw std::bad_alloc(); }); }),
              testing::ExitedWithCode(1),
              "error: rank 3: out of memory on the host, in the thread pl-write while saving, step 12: use a "
              "smaller");
  EXPECT_EXIT(with_words([] { in_thread("pl-load", [] { throw std::runtime_error("no such thing"); }); }),
              testing::KilledBySignal(SIGABRT),
              "error: rank 3: an exception that nothing catches, in the thread pl-load while saving, step "
              "12: no such thing");
}

TEST(LastWords, KeepSomeMemoryForThem) {
  const LastWords words("");
  const std::new_handler handler = std::get_new_handler();
  ASSERT_NE(handler, nullptr);
  EXPECT_NO_THROW(handler());  // gives what was kept
  EXPECT_THROW(handler(), std::bad_alloc);
}

TEST(LastWords, SayWhatThreadsDo) {
  note_phase("training", 0);
  EXPECT_EQ(phase_now(), "training");
  EXPECT_EQ(stacks_now().find("  threads: main runs"), 0u) << stacks_now();
}

}  // namespace
}  // namespace pipeline
