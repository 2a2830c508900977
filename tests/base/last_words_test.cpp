// What a process says that cannot throw any more.
#include "core/base/last_words.hpp"

#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "core/base/thread.hpp"

namespace pipeline {
namespace {

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
