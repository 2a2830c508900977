// Ranks that are late, give up, abort, die or stand still.
#include "tests/backends/backends_test.hpp"

#include <signal.h>

#include <algorithm>
#include <thread>

#include "core/base/error.hpp"

namespace pipeline::tests {
namespace {

using plugins::host_buffer;
using plugins::Work;
using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kLarge = 4'000'000;

std::uint32_t code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code();
  }
  return 0;
}

// All-reduces without end.
void keep_reducing(Rank& me, std::vector<float>& values) {
  for (;;) {
    me.group.all_reduce(host_buffer(values.data(), values.size())).wait();
    ++me.scene.flag[7];
  }
}

class Faults : public BackendTest {};

TEST_P(Faults, RanksThatDoNotComeAreNamedAfterTheTimeoutAndToldWhy) {
  const std::vector<std::string> problems = on_ranks(tested(), 3, [](Rank& me) {
    if (me.rank() == 0) {
      std::string problem;
      EXPECT_EQ(code_of([&] {
                  try {
                    me.group.barrier().wait(duration<double>(0.3));
                  } catch (const Error& e) {
                    problem = e.what();
                    throw;
                  }
                }),
                PL_ERROR_TIMEOUT);
      me.scene.flag[0] = 1;
      throw std::runtime_error(problem);
    }
    me.scene.wait_for(0);
    EXPECT_EQ(code_of([&] { me.group.barrier().wait(); }), PL_ERROR_PEER);
    me.group.barrier().wait();
  });
  EXPECT_THAT(problems[0], HasSubstr(": barrier #1: after 0.3 seconds these ranks have not called it: 1, 2"));
  for (const std::size_t rank : {1u, 2u})
    EXPECT_THAT(problems[rank], AllOf(HasSubstr("rank 0"), HasSubstr("0.3 seconds"), HasSubstr("called")));
}

// The caller may use or free the memory as soon as wait() has returned.
TEST_P(Faults, NothingTouchesTheBuffersAfterATimeout) {
  on_ranks(tested(), 2, [](Rank& me) {
    std::vector<float> values(kLarge, static_cast<float>(me.rank()));
    if (me.rank() == 1) {
      me.scene.wait_for(0);
      std::thread late([&] { me.scene.flag[1] = 1; });
      problem_of([&] { me.group.all_reduce(host_buffer(values.data(), kLarge)).wait(); });
      late.join();
      return;
    }
    Work first = me.group.all_reduce(host_buffer(values.data(), kLarge));
    EXPECT_NE(problem_of([&] { first.wait(duration<double>(0.2)); }), "none");
    std::fill(values.begin(), values.end(), 42.0f);
    me.scene.flag[0] = 1;
    me.scene.wait_for(1);
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_EQ(values, std::vector<float>(kLarge, 42.0f));
  });
}

TEST_P(Faults, AbortFromAnotherThreadEndsWaitsAndLaterCallsOnAllRanks) {
  const std::vector<std::string> problems = on_ranks(tested(), 3, [](Rank& me) {
    if (me.rank() == 2) {  // never calls
      me.scene.wait_for(0, 2);
      me.group.abort("rank 2 saw a signal");
      me.group.barrier().wait();
      return;
    }
    Work work = me.group.barrier();
    Work behind = me.group.barrier();
    ++me.scene.flag[0];
    const auto begin = steady_clock::now();
    EXPECT_EQ(code_of([&] { work.wait(); }), PL_ERROR_PEER);
    EXPECT_EQ(code_of([&] { behind.wait(); }), PL_ERROR_PEER);
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(10));  // not the 20 of the timeout
    me.group.barrier().wait();
  });
  for (const std::string& problem : problems)
    EXPECT_THAT(problem, HasSubstr("aborted by rank 2: rank 2 saw a signal"));
}

TEST_P(Faults, AbortOfTheRankThatWaits) {
  const std::vector<std::string> problems = on_ranks(tested(), 2, [](Rank& me) {
    if (me.rank() == 1) {
      me.scene.wait_for(0);
      me.group.barrier().wait();
      return;
    }
    std::vector<float> values(kLarge);
    Work work = me.group.all_reduce(host_buffer(values.data(), kLarge));
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(50));
      me.group.abort("stop");
    });
    while (!work.is_done()) std::this_thread::yield();  // that it failed is for wait() to say
    EXPECT_THAT(problem_of([&] { work.wait(); }), HasSubstr("aborted by rank 0: stop"));
    other.join();
    me.scene.flag[0] = 1;
    me.group.barrier().wait();
  });
  for (const std::string& problem : problems) EXPECT_THAT(problem, HasSubstr("aborted by rank 0: stop"));
}

TEST_P(Faults, ARankThatLeavesEndsTheOthersCalls) {
  const std::vector<std::string> problems = on_raw_ranks(tested(), 2, [](const OpenArgs& args, Scene& scene) {
    auto group = open_group(tested(), args);
    group->barrier().wait();
    if (args.rank == 1) group.reset();
    if (group) group->barrier().wait(duration<double>(15));
    scene.flag[0] = 1;
  });
  EXPECT_THAT(problems[0], AllOf(HasSubstr("rank 1"), HasSubstr("left")));
  EXPECT_EQ(problems[1], "");
}

// What all ranks have called is completed for each of them, though some are on their way out already.
TEST_P(Faults, ARankMayLeaveAtOnceAfterItsLastCall) {
  expect_fine(on_raw_ranks(tested(), 3, [](const OpenArgs& args, Scene&) {
    for (int i = 0; i < 10; ++i) {
      OpenArgs again = args;
      again.group += std::to_string(i);
      auto group = open_group(tested(), again);
      std::vector<float> values(100'000, 1);
      group->all_reduce(host_buffer(values.data(), values.size())).wait();
      EXPECT_EQ(values[99'999], 3);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Backend, Faults, kEveryBackend, backend_name);

class Peers : public ProcessTest {
 protected:
  // The others' errors when `victim` is killed while all three are at work.
  static void kill_one(int victim) {
    const std::vector<std::string> problems = on_ranks(tested(), 3, [victim](Rank& me) {
      std::vector<float> values(kLarge);
      std::thread death;
      if (me.rank() == victim)
        death = std::thread([&] {
          me.scene.wait_for(7, 4);
          std::this_thread::sleep_for(milliseconds(7));
          ::raise(SIGKILL);
        });
      const auto begin = steady_clock::now();
      EXPECT_EQ(code_of([&] { keep_reducing(me, values); }), PL_ERROR_PEER);
      EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(15));  // not the 20 of the timeout
      keep_reducing(me, values);
    });
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& problem = problems[static_cast<std::size_t>(rank)];
      if (rank == victim)
        EXPECT_EQ(problem, "killed by signal 9");
      else
        EXPECT_THAT(problem, AllOf(HasSubstr("rank " + std::to_string(victim)), HasSubstr("was lost")));
    }
  }
};

TEST_P(Peers, AKilledOneIsNamedByTheOthersInTheMiddleOfACall) { kill_one(1); }
TEST_P(Peers, TheFirstOneMayBeTheOneThatIsKilled) { kill_one(0); }

TEST_P(Peers, AStoppedOneEndsInTheTimeout) {
  RankOptions options;
  options.timeout = 2;
  const std::vector<std::string> problems = on_ranks(
      tested(), 3,
      [](Rank& me) {
        std::vector<float> values(kLarge);
        std::thread stop;
        if (me.rank() == 1)
          stop = std::thread([&] {
            me.scene.wait_for(7, 4);
            ::raise(SIGSTOP);
          });
        keep_reducing(me, values);
      },
      options);
  EXPECT_EQ(problems[1], "stopped");
  const auto late = HasSubstr("after 2 seconds");
  EXPECT_THAT(problems[0], late);
  EXPECT_THAT(problems[2], late);
}

INSTANTIATE_TEST_SUITE_P(Backend, Peers, kProcessBackends, backend_name);

}  // namespace
}  // namespace pipeline::tests
