// Every collective, of every dtype, at even, uneven and zero sizes, on 1 to 4 ranks, gives what it promises.
#include "tests/backends/backends_test.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "core/base/error.hpp"
#include "tests/backends/values.hpp"

namespace pipeline::tests {
namespace {

using plugins::host_buffer;
using plugins::Work;
using Counts = std::vector<std::uint64_t>;

// What rank r has at place i: small, so that sums are exact in every dtype.
double term(int rank, std::uint64_t i) {
  return static_cast<double>((i * 7 + static_cast<unsigned>(rank) * 3) % 11);
}

Values terms(pl_dtype dtype, std::uint64_t count, int rank) {
  Values values(dtype, count);
  for (std::uint64_t i = 0; i < count; ++i) values.set(i, term(rank, i));
  return values;
}

double reduced(std::uint64_t i, int ranks, std::uint32_t reduce) {
  double result = term(0, i);
  for (int r = 1; r < ranks; ++r) {
    const double next = term(r, i);
    result = reduce == PL_REDUCE_SUM   ? result + next
             : reduce == PL_REDUCE_MIN ? std::min(result, next)
                                       : std::max(result, next);
  }
  return result;
}

// The first place where `seen` is not `expected(i)`, as text.
std::string first_wrong(const Values& seen, const std::function<double(std::uint64_t)>& expected) {
  for (std::uint64_t i = 0; i < seen.count(); ++i)
    if (seen.get(i) != expected(i))
      return "at " + std::to_string(i) + ": " + std::to_string(seen.get(i)) + ", expected " +
             std::to_string(expected(i));
  return "";
}

std::uint64_t sum_before(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::uint64_t{0});
}

// Uneven counts, one of them zero where there are three ranks or more.
Counts uneven(int ranks, std::uint64_t scale) {
  Counts counts;
  for (int r = 0; r < ranks; ++r)
    counts.push_back(r == 1 && ranks > 2 ? 0
                                         : scale * static_cast<unsigned>(r + 1) + static_cast<unsigned>(r));
  return counts;
}

void check_all_reduce(Rank& me, pl_dtype dtype, std::uint64_t count) {
  for (const std::uint32_t reduce : {PL_REDUCE_SUM, PL_REDUCE_MIN, PL_REDUCE_MAX}) {
    Values values = terms(dtype, count, me.rank());
    me.group.all_reduce(values.buffer(), reduce).wait();
    EXPECT_EQ(first_wrong(values, [&](std::uint64_t i) { return reduced(i, me.size(), reduce); }), "")
        << "all_reduce " << reduce << " of " << count;
  }
}

void check_reduce_scatter(Rank& me, pl_dtype dtype, const Counts& counts, bool even) {
  const std::uint64_t total = sum_before(counts, me.size()), begin = sum_before(counts, me.rank());
  for (const bool in_place : {false, true}) {
    Values in = terms(dtype, total, me.rank());
    const std::uint64_t mine = counts[static_cast<std::size_t>(me.rank())];
    Values shard(dtype, mine);
    const pl_buffer out = in_place ? in.part(begin, mine) : shard.buffer();
    me.group.reduce_scatter(in.buffer(), out, even ? Counts() : counts).wait();
    if (in_place)
      for (std::uint64_t i = 0; i < mine; ++i) shard.set(i, in.get(begin + i));
    EXPECT_EQ(
        first_wrong(shard, [&](std::uint64_t i) { return reduced(begin + i, me.size(), PL_REDUCE_SUM); }), "")
        << "reduce_scatter of " << total << (in_place ? " in place" : "");
  }
}

void check_all_gather(Rank& me, pl_dtype dtype, const Counts& counts, bool even) {
  const std::uint64_t total = sum_before(counts, me.size()), begin = sum_before(counts, me.rank());
  const std::uint64_t mine = counts[static_cast<std::size_t>(me.rank())];
  for (const bool in_place : {false, true}) {
    Values shard(dtype, mine), full(dtype, total);
    for (std::uint64_t i = 0; i < mine; ++i)
      (in_place ? full : shard).set((in_place ? begin : 0) + i, term(0, begin + i));
    const pl_buffer in = in_place ? full.part(begin, mine) : shard.buffer();
    me.group.all_gather(in, full.buffer(), even ? Counts() : counts).wait();
    EXPECT_EQ(first_wrong(full, [](std::uint64_t i) { return term(0, i); }), "")
        << "all_gather of " << total << (in_place ? " in place" : "");
  }
}

void check_broadcast(Rank& me, pl_dtype dtype, std::uint64_t count) {
  for (int root = 0; root < me.size(); ++root) {
    Values values = terms(dtype, count, me.rank());
    me.group.broadcast(values.buffer(), root).wait();
    EXPECT_EQ(first_wrong(values, [&](std::uint64_t i) { return term(root, i); }), "")
        << "broadcast of " << count << " from " << root;
  }
}

// Rank a sends (a + 1) * (b + 1) * scale elements to rank b, nothing to itself where there are others.
void check_all_to_all(Rank& me, pl_dtype dtype, std::uint64_t scale) {
  const auto amount = [&](int a, int b) {
    return a == b && me.size() > 1 ? 0 : static_cast<unsigned>((a + 1) * (b + 1)) * scale;
  };
  Counts send, receive;
  for (int r = 0; r < me.size(); ++r) {
    send.push_back(amount(me.rank(), r));
    receive.push_back(amount(r, me.rank()));
  }
  Values in = terms(dtype, sum_before(send, me.size()), me.rank());
  Values out(dtype, sum_before(receive, me.size()));
  me.group.all_to_all(in.buffer(), out.buffer(), send, receive).wait();
  for (int from = 0; from < me.size(); ++from) {
    std::uint64_t there = 0;
    for (int r = 0; r < me.rank(); ++r) there += amount(from, r);
    for (std::uint64_t i = 0; i < receive[static_cast<std::size_t>(from)]; ++i)
      ASSERT_EQ(out.get(sum_before(receive, from) + i), term(from, there + i)) << "all_to_all from " << from;
  }
}

void check_everything(Rank& me, const NamedDtype& tested) {
  SCOPED_TRACE(tested.name);
  for (const std::uint64_t count : {0u, 1u, 3u, 1000u, 20001u}) {
    check_all_reduce(me, tested.dtype, count);
    check_broadcast(me, tested.dtype, count);
  }
  for (const std::uint64_t scale : {0u, 1u, 700u}) {
    const Counts even(static_cast<std::size_t>(me.size()), scale);
    check_reduce_scatter(me, tested.dtype, even, true);
    check_reduce_scatter(me, tested.dtype, uneven(me.size(), scale), false);
    check_all_gather(me, tested.dtype, even, true);
    check_all_gather(me, tested.dtype, uneven(me.size(), scale), false);
    check_all_to_all(me, tested.dtype, scale);
  }
  me.group.barrier().wait();
}

class Collectives : public BackendTest {};

TEST_P(Collectives, OfEveryDtypeOnOneRank) {
  expect_fine(on_ranks(tested(), 1, [](Rank& me) {
    for (const NamedDtype& dtype : every_dtype()) check_everything(me, dtype);
  }));
}
TEST_P(Collectives, OfEveryDtypeOnTwoRanks) {
  expect_fine(on_ranks(tested(), 2, [](Rank& me) {
    for (const NamedDtype& dtype : every_dtype()) check_everything(me, dtype);
  }));
}
TEST_P(Collectives, OfEveryDtypeOnThreeRanks) {
  expect_fine(on_ranks(tested(), 3, [](Rank& me) {
    for (const NamedDtype& dtype : every_dtype()) check_everything(me, dtype);
  }));
}
TEST_P(Collectives, OfEveryDtypeOnFourRanks) {
  expect_fine(on_ranks(tested(), 4, [](Rank& me) {
    for (const NamedDtype& dtype : every_dtype()) check_everything(me, dtype);
  }));
}

// Numbers of a generator that is quick under the sanitizers, too (Knuth's MMIX).
std::vector<float> random_terms(int rank, std::size_t count) {
  uint64_t state = static_cast<uint64_t>(rank) + 1;
  std::vector<float> values(count);
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(static_cast<int32_t>(state >> 32)) / 65536.0f;
  }
  return values;
}

// Buffers of a size that no backend moves in one piece.
TEST_P(Collectives, LargeSumsAreMadeInTheOrderOfTheRanks) {
  for (const int ranks : {2, 3})
    expect_fine(on_ranks(tested(), ranks, [](Rank& me) {
      constexpr std::size_t kCount = 4'500'001;
      std::vector<float> mine = random_terms(me.rank(), kCount), expected = random_terms(0, kCount);
      for (int r = 1; r < me.size(); ++r) {
        const std::vector<float> next = random_terms(r, kCount);
        for (std::size_t i = 0; i < kCount; ++i) expected[i] += next[i];
      }
      Counts counts(static_cast<std::size_t>(me.size()), 100);
      counts[1] = kCount - 100 * static_cast<unsigned>(me.size() - 1);
      std::vector<float> shard(counts[static_cast<std::size_t>(me.rank())]), full(kCount);
      me.group
          .reduce_scatter(host_buffer(mine.data(), kCount), host_buffer(shard.data(), shard.size()), counts)
          .wait();
      me.group.all_reduce(host_buffer(mine.data(), kCount)).wait();
      EXPECT_EQ(mine, expected);
      me.group.all_gather(host_buffer(shard.data(), shard.size()), host_buffer(full.data(), kCount), counts)
          .wait();
      EXPECT_EQ(full, expected);
      if (me.rank() != 1) std::fill(full.begin(), full.end(), 0.0f);
      me.group.broadcast(host_buffer(full.data(), kCount), 1).wait();
      EXPECT_EQ(full, expected);
    }));
}

TEST_P(Collectives, ManyAreUnderWayAndWaitedForInAnyOrderFromAnyThread) {
  expect_fine(on_ranks(tested(), 3, [](Rank& me) {
    constexpr std::size_t kCalls = 300;
    std::vector<std::vector<float>> values;
    std::vector<Work> works;
    for (std::size_t i = 0; i < kCalls; ++i)
      values.emplace_back(1 + i * 37 % 5000, static_cast<float>(me.rank() + 1));
    for (std::vector<float>& each : values) {
      const pl_buffer buffer = host_buffer(each.data(), each.size());
      works.push_back(&each - values.data() > 200 ? me.group.broadcast(buffer, 2)
                                                  : me.group.all_reduce(buffer));
    }
    std::thread other([&] {
      for (std::size_t i = kCalls; i-- > kCalls / 2;) works[i].wait();
    });
    for (std::size_t i = kCalls / 2; i-- > 0;) works[i].wait();
    other.join();
    for (std::size_t i = 0; i < kCalls; ++i)
      EXPECT_EQ(values[i], std::vector<float>(values[i].size(), i > 200 ? 3.0f : 6.0f)) << i;
  }));
}

TEST_P(Collectives, ReturnAtOnceAndGoOnWhileTheCallerComputes) {
  expect_fine(on_ranks(tested(), 2, [](Rank& me) {
    if (me.rank() == 1) me.scene.wait_for(0);
    std::vector<float> values(1000, 1);
    Work work = me.group.all_reduce(host_buffer(values.data(), values.size()));
    me.scene.flag[0] = 1;  // rank 0 got here without rank 1
    work.wait();
    EXPECT_EQ(values[999], 2);
  }));
}

TEST_P(Collectives, SayWhetherTheyAreDone) {
  expect_fine(on_ranks(tested(), 2, [](Rank& me) {
    if (me.rank() == 1) me.scene.wait_for(0);
    std::vector<float> values(1000, 1);
    Work work = me.group.all_reduce(host_buffer(values.data(), values.size()));
    if (me.rank() == 0) {
      EXPECT_FALSE(work.is_done()) << "rank 1 has not called it";
      me.scene.flag[0] = 1;
    }
    while (!work.is_done()) std::this_thread::yield();
    work.wait();
    EXPECT_EQ(values[999], 2);
  }));
}

// float16 and bfloat16 are added in float32: 256 + 1 is no bfloat16, 256 + 1 + 1 is.
TEST_P(Collectives, HalfPrecisionsAreRoundedOnce) {
  if (tested().name == "fake") GTEST_SKIP() << "the fake backend rounds every sum";
  expect_fine(on_ranks(tested(), 3, [](Rank& me) {
    for (const std::size_t count : {std::size_t{5}, std::size_t{100'000}}) {
      std::vector<std::uint16_t> brain(count, me.rank() == 0 ? 0x4380 : 0x3f80);  // 256, 1, 1
      std::vector<std::uint16_t> half(count, me.rank() == 0 ? 0x6800 : 0x3c00);   // 2048, 1, 1
      pl_buffer buffer = host_buffer(static_cast<float*>(nullptr), count);
      buffer.data = brain.data();
      buffer.dtype = {PL_DTYPE_BFLOAT, 16, 1};
      me.group.all_reduce(buffer).wait();
      buffer.data = half.data();
      buffer.dtype = {PL_DTYPE_FLOAT, 16, 1};
      me.group.all_reduce(buffer).wait();
      EXPECT_EQ(brain, std::vector<std::uint16_t>(count, 0x4381));
      EXPECT_EQ(half, std::vector<std::uint16_t>(count, 0x6801));
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Backend, Collectives, kEveryBackend, backend_name);

}  // namespace
}  // namespace pipeline::tests
