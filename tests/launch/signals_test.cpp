// How a rank counts the signals that come to it on two ways: a batch system that reaches every process, and
// the supervisor that passes on what it got itself.
#include "core/train/processes/signals.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

namespace pipeline::train {
namespace {

enum class From { supervisor, batch_system };

void wait_for_line(int pipe) {
  char byte = 0;
  ASSERT_EQ(::read(pipe, &byte, 1), 1);
}

// `ulimit -f` sets the limit: the write that goes beyond fails, and is reported like any other.
TEST(Signals, ALimitOnFilesDoesNotEndARun) {
  const Signals signals;
  EXPECT_EQ(::raise(SIGXFSZ), 0);
}

// The exit code of a rank that gets SIGTERM from each of these in turn: 75 if it was not ended by them.
int exit_code_after(bool supervised, std::initializer_list<From> senders) {
  int ready[2], go[2];
  EXPECT_EQ(::pipe(ready) | ::pipe(go), 0);
  const pid_t rank = ::fork();
  if (rank == 0) {
    const Signals signals(supervised);
    char byte = 0;
    [[maybe_unused]] const auto written = ::write(ready[1], "r", 1);
    while (::read(go[0], &byte, 1) != 1) {
    }
    ::_exit(Signals::received() != 0 ? 75 : 0);
  }
  wait_for_line(ready[0]);
  for (const From from : senders) {
    if (from == From::supervisor) {
      ::kill(rank, SIGTERM);
    } else if (const pid_t other = ::fork(); other == 0) {
      ::kill(rank, SIGTERM);
      ::_exit(0);
    } else {
      ::waitpid(other, nullptr, 0);
    }
    ::usleep(20'000);  // two signals that are pending would be one
  }
  [[maybe_unused]] const auto written = ::write(go[1], "g", 1);
  int status = 0;
  ::waitpid(rank, &status, 0);
  for (const int end : {ready[0], ready[1], go[0], go[1]}) ::close(end);
  return WEXITSTATUS(status);
}

// The thread sanitizer holds signals back until a thread is ready for them, and two of one number become one.
#ifdef PIPELINE_SANITIZES_THREAD
#define skip_where_signals_are_merged() GTEST_SKIP() << "the thread sanitizer delivers two signals as one"
#else
#define skip_where_signals_are_merged() static_cast<void>(0)
#endif

TEST(Signals, TheSecondOneEndsTheProcess) {
  skip_where_signals_are_merged();
  EXPECT_EQ(exit_code_after(false, {}), 0);
  EXPECT_EQ(exit_code_after(false, {From::supervisor}), 75);
  EXPECT_EQ(exit_code_after(false, {From::supervisor, From::batch_system}), 128 + SIGTERM);
}

TEST(Signals, OneThatComesOnBothWaysIsOne) {
  skip_where_signals_are_merged();
  EXPECT_EQ(exit_code_after(true, {From::supervisor, From::batch_system}), 75);
  EXPECT_EQ(exit_code_after(true, {From::batch_system, From::supervisor}), 75);
  EXPECT_EQ(exit_code_after(true, {From::batch_system, From::supervisor, From::batch_system}), 128 + SIGTERM);
  EXPECT_EQ(exit_code_after(true, {From::supervisor, From::supervisor}), 128 + SIGTERM);
}

}  // namespace
}  // namespace pipeline::train
