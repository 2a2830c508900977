// The fake backend: ranks as threads of this process. What holds here is asked of every backend.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <test_paths.hpp>
#include <thread>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/plugins/backend.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::plugins {
namespace {

using std::chrono::duration;
using ::testing::HasSubstr;

const Plugin& fake() { return Plugin::load(PIPELINE_BUILD_DIR "/tests/plugins/backends/fake.so"); }

OpenArgs open_args(int rank, int ranks, double timeout = 30) {
  OpenArgs args;
  args.address = "here";
  args.group = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  args.rank = rank;
  args.world_size = ranks;
  args.timeout = duration<double>(timeout);
  return args;
}

// Runs `body` as each of the ranks; what they throw comes back as text, empty for none.
std::vector<std::string> on_ranks(int ranks, const std::function<void(Communicator&)>& body,
                                  double timeout = 30) {
  fake();
  std::vector<std::string> problems(static_cast<std::size_t>(ranks));
  std::atomic<int> done = 0;
  peers::Group run(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        peers::Peers peers(run.world(rank), {});
        pl_context context("backend fake");
        give_exchange(context, peers);
        Communicator group(fake(), context, nullptr, open_args(rank, ranks, timeout));
        try {
          body(group);
        } catch (const Error& e) {
          problems[static_cast<std::size_t>(rank)] = e.what();
        }
        for (++done; done < ranks;) std::this_thread::yield();  // leaving would end the others' calls
      } catch (const Error& e) {
        problems[static_cast<std::size_t>(rank)] = e.what();
        ++done;
      }
    });
  for (std::thread& thread : threads) thread.join();
  return problems;
}

void expect_fine(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

TEST(Fake, AllReduceAddsInTheOrderOfTheRanks) {
  // In this order the small terms are lost one by one; in another they would not be.
  const float terms[] = {1e8f, 3.0f, 3.0f, -1e8f};
  float expected = terms[0];
  for (int r = 1; r < 4; ++r) expected += terms[r];
  expect_fine(on_ranks(4, [&](Communicator& group) {
    float value[2] = {terms[group.rank()], static_cast<float>(group.rank())};
    group.all_reduce(host_buffer(value, 2)).wait();
    EXPECT_EQ(value[0], expected);
    EXPECT_EQ(value[1], 6);
  }));
}

TEST(Fake, ReducesEveryDtype) {
  const auto reduce = [](Communicator& group, auto mine, pl_dtype dtype, std::uint32_t how) {
    auto buffer = sized<pl_buffer>();
    buffer.data = &mine;
    buffer.count = 1;
    buffer.dtype = dtype;
    buffer.device = {PL_DEVICE_CPU, 0};
    group.all_reduce(buffer, how).wait();
    return mine;
  };
  expect_fine(on_ranks(3, [&](Communicator& group) {
    const int r = group.rank();
    EXPECT_EQ(reduce(group, 0.5 + r, {PL_DTYPE_FLOAT, 64, 1}, PL_REDUCE_SUM), 4.5);
    EXPECT_EQ(reduce(group, std::int64_t{1} << (40 + r), {PL_DTYPE_INT, 64, 1}, PL_REDUCE_MAX),
              std::int64_t{1} << 42);
    EXPECT_EQ(reduce(group, static_cast<std::int32_t>(-r), {PL_DTYPE_INT, 32, 1}, PL_REDUCE_MIN), -2);
    EXPECT_EQ(reduce(group, static_cast<std::uint8_t>(100), {PL_DTYPE_UINT, 8, 1}, PL_REDUCE_SUM), 300 - 256);
    EXPECT_EQ(reduce(group, static_cast<std::uint8_t>(r == 1), {PL_DTYPE_BOOL, 8, 1}, PL_REDUCE_SUM), 1);
    EXPECT_EQ(reduce(group, static_cast<std::uint8_t>(r == 1), {PL_DTYPE_BOOL, 8, 1}, PL_REDUCE_MIN), 0);
    // bfloat16 1.0 is 0x3f80, 3.0 is 0x4040; float16 1.0 is 0x3c00, 3.0 is 0x4200, the smallest subnormal 1,
    // infinity 0x7c00.
    EXPECT_EQ(reduce(group, std::uint16_t{0x3f80}, {PL_DTYPE_BFLOAT, 16, 1}, PL_REDUCE_SUM), 0x4040);
    EXPECT_EQ(reduce(group, std::uint16_t{0x3c00}, {PL_DTYPE_FLOAT, 16, 1}, PL_REDUCE_SUM), 0x4200);
    EXPECT_EQ(reduce(group, std::uint16_t{1}, {PL_DTYPE_FLOAT, 16, 1}, PL_REDUCE_SUM), 3);
    EXPECT_EQ(reduce(group, std::uint16_t{0x7bff}, {PL_DTYPE_FLOAT, 16, 1}, PL_REDUCE_SUM), 0x7c00);
    EXPECT_TRUE(std::isnan(reduce(group, r == 1 ? NAN : 1.0f, {PL_DTYPE_FLOAT, 32, 1}, PL_REDUCE_MAX)));
  }));
}

TEST(Fake, ReduceScatterAndAllGatherWithUnevenShares) {
  const std::uint64_t counts[] = {1, 0, 3};
  expect_fine(on_ranks(3, [&](Communicator& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    float in[4], shard[3] = {}, full[4] = {};
    for (std::size_t i = 0; i < 4; ++i) in[i] = static_cast<float>(10 * r + i);
    group.reduce_scatter(host_buffer(in, 4), host_buffer(shard, counts[r]), counts).wait();
    group.all_gather(host_buffer(shard, counts[r]), host_buffer(full, 4), counts).wait();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(full[i], static_cast<float>(30 + 3 * i));
  }));
}

TEST(Fake, AllToAllSendsEachItsOwn) {
  expect_fine(on_ranks(3, [&](Communicator& group) {
    const int r = group.rank();
    // Rank r sends r + 1 elements to each, all of them r.
    std::vector<std::int64_t> in(static_cast<std::size_t>(3 * (r + 1)), r), out(6, -1);
    const std::vector<std::uint64_t> send(3, static_cast<std::uint64_t>(r + 1)), receive{1, 2, 3};
    group.all_to_all(host_buffer(in.data(), in.size()), host_buffer(out.data(), out.size()), send, receive)
        .wait();
    EXPECT_EQ(out, (std::vector<std::int64_t>{0, 1, 1, 2, 2, 2}));
  }));
}

TEST(Fake, BroadcastAndBarrier) {
  expect_fine(on_ranks(4, [&](Communicator& group) {
    double value = group.rank();
    group.broadcast(host_buffer(&value, 1), 2).wait();
    EXPECT_EQ(value, 2);
    group.barrier().wait();
  }));
}

TEST(Fake, CollectivesOverlapAndAreMatchedInCallOrder) {
  expect_fine(on_ranks(2, [&](Communicator& group) {
    std::vector<float> values(50, 1);
    std::vector<Work> works;
    for (float& value : values) works.push_back(group.all_reduce(host_buffer(&value, 1)));
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
    EXPECT_EQ(values, std::vector<float>(50, 2));
    const std::vector<Flight> flights = group.record().recent();
    EXPECT_EQ(flights.size(), 50u);
    EXPECT_EQ(describe(flights.back()), "all_reduce #50 (1 x float32)");
    EXPECT_TRUE(std::ranges::all_of(flights, &Flight::done));
  }));
}

TEST(Fake, TheRecordSaysWhatACollectiveIsFor) {
  expect_fine(on_ranks(2, [&](Communicator& group) {
    float full[4] = {};
    pl_buffer shard = host_buffer(full + 2 * group.rank(), 2);
    shard.label = to_pl("weights 3");
    group.all_gather(shard, host_buffer(full, 4)).wait();
    EXPECT_EQ(describe(group.record().recent().back()), "all_gather #1 (4 x float32, weights 3)");
  }));
}

TEST(Fake, MismatchedCallsFailOnAllRanksAndNameBoth) {
  const std::vector<std::string> problems = on_ranks(2, [&](Communicator& group) {
    float values[4] = {};
    group.barrier().wait();
    if (group.rank() == 0)
      group.all_reduce(host_buffer(values, 4)).wait();
    else
      group.broadcast(host_buffer(values, 3), 0).wait();
  });
  for (const std::string& problem : problems) {
    EXPECT_THAT(problem, HasSubstr("the ranks' calls differ at #2: rank 0: all_reduce of 4 x float32"));
    EXPECT_THAT(problem, HasSubstr("rank 1: broadcast of 3 x float32"));
  }
}

TEST(Fake, DtypesAndCountsMustAgree) {
  for (const std::string& problem : on_ranks(2, [&](Communicator& group) {
         float narrow = 0;
         double wide = 0;
         group.all_reduce(group.rank() ? host_buffer(&wide, 1) : host_buffer(&narrow, 1)).wait();
       }))
    EXPECT_THAT(problem, HasSubstr("float64"));
  for (const std::string& problem : on_ranks(2, [&](Communicator& group) {
         float values[4] = {};
         group.all_reduce(host_buffer(values, group.rank() ? 3 : 4)).wait();
       }))
    EXPECT_THAT(problem, HasSubstr("all_reduce of 3 x float32"));
}

TEST(Fake, ARankThatDoesNotComeIsNamedAfterTheTimeout) {
  std::atomic<bool> given_up = false;
  const std::vector<std::string> problems = on_ranks(3, [&](Communicator& group) {
    if (group.rank() == 0) {
      try {
        group.barrier().wait(duration<double>(0.05));
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), PL_ERROR_TIMEOUT);
        given_up = true;
        throw;
      }
    }
    while (!given_up) std::this_thread::yield();
    group.barrier().wait();
  });
  EXPECT_EQ(
      problems[0],
      "backend fake: barrier #1: after 0.05 seconds these ranks have not called it: 1, 2 in barrier #1");
  for (int rank : {1, 2})
    EXPECT_THAT(problems[static_cast<std::size_t>(rank)], HasSubstr("rank 0 gave up after 0.05 seconds"));
}

TEST(Fake, AbortEndsWaitsAndLaterCalls) {
  std::atomic<bool> waiting = false;
  const auto started = std::chrono::steady_clock::now();
  const std::vector<std::string> problems = on_ranks(2, [&](Communicator& group) {
    if (group.rank() == 0) {
      Work work = group.barrier();
      waiting = true;
      try {
        work.wait();
        ADD_FAILURE() << "the barrier ended without rank 1";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), PL_ERROR_PEER);
        EXPECT_THAT(e.what(), HasSubstr("aborted by rank 1: rank 1 saw a signal"));
      }
    } else {
      while (!waiting) std::this_thread::yield();
      group.abort("rank 1 saw a signal");
    }
    group.barrier().wait();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - started,
            std::chrono::seconds(20));  // not the 30 of the timeout
  for (const std::string& problem : problems) EXPECT_THAT(problem, HasSubstr("aborted by rank 1"));
}

TEST(Fake, WrongArgumentsAreRefusedAtOnce) {
  expect_fine(on_ranks(2, [&](Communicator& group) {
    const auto problem_of = [](const std::function<void()>& call) {
      try {
        call();
        return std::string("none");
      } catch (const Error& e) {
        return std::string(e.what());
      }
    };
    float values[3] = {};
    EXPECT_EQ(problem_of([&] { group.reduce_scatter(host_buffer(values, 3), host_buffer(values, 1)); }),
              "backend fake: reduce_scatter: 3 elements cannot be shared evenly by 2 ranks");
    EXPECT_EQ(problem_of([&] { group.broadcast(host_buffer(values, 3), 2); }),
              "backend fake: broadcast: root is 2 of 2 ranks");
    EXPECT_EQ(problem_of([&] { group.all_reduce(host_buffer(values, 3), 9); }),
              "backend fake: all_reduce: reduction 9 is unknown");
    const std::uint64_t one[] = {1};
    EXPECT_EQ(problem_of([&] { group.all_gather(host_buffer(values, 1), host_buffer(values, 3), one); }),
              "all_gather: needs one count for each of the 2 ranks, got 1");
    pl_buffer device = host_buffer(values, 3);
    device.device = {PL_DEVICE_CUDA, 0};
    EXPECT_EQ(problem_of([&] { group.all_reduce(device); }),
              "backend fake: all_reduce: the buffer is not in host memory (device type 2)");
    group.barrier().wait();
  }));
}

TEST(Fake, AnUnknownOptionOfOpenIsRefused) {
  struct Larger {
    pl_backend_open_args known;
    std::uint64_t option_of_the_future;
  } larger{sized<pl_backend_open_args>(), 1};
  larger.known.struct_size = sizeof larger;
  larger.known.world_size = 1;
  larger.known.device = {PL_DEVICE_CPU, 0};
  larger.known.timeout_seconds = 1;
  peers::Peers peers(World(), {});
  pl_context context("backend fake");
  give_exchange(context, peers);
  pl_comm* comm = nullptr;
  EXPECT_THROW(check(fake().backend().open(&host_table(), &context, nullptr, &larger.known, &comm)), Error);
  larger.option_of_the_future = 0;
  check(fake().backend().open(&host_table(), &context, nullptr, &larger.known, &comm));
  fake().backend().close(comm);
}

#ifdef PIPELINE_THREAD_CHECKS
TEST(Fake, TwoCallsAtOnceOnOneGroupAreRefused) {
  SerialCheck check;
  const SerialCheck::Scope first(check, "backend fake", "all_reduce");
  EXPECT_THROW(SerialCheck::Scope(check, "backend fake", "barrier"), Error);
}
#endif

}  // namespace
}  // namespace pipeline::plugins
