#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "core/peers/frame.hpp"
#include "core/peers/peers.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::peers {
namespace {

std::string part_of(int32_t rank, std::size_t size) {
  return std::string(size, static_cast<char>('a' + rank % 26));
}

TEST(Exchange, CarriesBytesOfAnySize) {
  Group run(3);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    for (const std::size_t size : {0, 1, 300, 5000, 70'000, 8'000'000}) {
      const std::size_t mine = rank == 1 ? size / 2 : size;  // not all alike
      const std::vector<std::string> expected = {part_of(0, size), part_of(1, size / 2), part_of(2, size)};
      EXPECT_TRUE(peers.all_gather("values", part_of(rank, mine)) == expected) << size;
      EXPECT_TRUE(peers.gather("values", part_of(rank, mine)) ==
                  (rank == 0 ? expected : std::vector<std::string>()))
          << size;
      EXPECT_TRUE(peers.broadcast("values", part_of(rank, size)) == part_of(0, size)) << size;
    }
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

TEST(Exchange, BarriersHoldEverybodyUp) {
  Group run(3);
  std::atomic<int> arrived = 0;
  const auto thrown = as_ranks(run, {}, [&](int32_t rank, Peers& peers) {
    std::this_thread::sleep_for(Milliseconds(50 * rank));
    ++arrived;
    peers.barrier("all");
    EXPECT_EQ(arrived, 3);
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

TEST(Exchange, KeepsItsOrder) {
  Group run(2);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    for (int i = 0; i < 500; ++i) {
      const std::string number = std::to_string(i);
      EXPECT_EQ(peers.all_gather("count", number + (rank == 0 ? "a" : "b")),
                (std::vector<std::string>{number + "a", number + "b"}));
    }
  });
  EXPECT_EQ(thrown, nothing_thrown(2));
}

// The checkpoint's writer agrees with the others while the training loop does, and each in its own order.
TEST(Exchange, ChannelsAreUsedFromThreadsAtOnce) {
  constexpr int kThreads = 4, kRounds = 100;
  Group run(3);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    const auto errors = as_threads(kThreads, [&](int32_t thread) {
      const std::string channel = "channel " + std::to_string(thread);
      for (int i = 0; i < kRounds; ++i) {
        const std::size_t size = thread == 0 ? 200'000 : 10;
        const std::string prefix = channel + std::to_string(i);
        const auto all = peers.all_gather(channel, prefix + part_of(rank, size));
        for (int32_t other = 0; other < 3; ++other)
          EXPECT_TRUE(all.at(static_cast<std::size_t>(other)) == prefix + part_of(other, size));
      }
    });
    EXPECT_EQ(errors, nothing_thrown(kThreads));
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

TEST(Exchange, SixtyFourRanks) {
  Group run(64);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    for (int i = 0; i < 5; ++i) {
      const auto all = peers.all_gather("ranks", std::to_string(rank));
      ASSERT_EQ(all.size(), 64u);
      for (std::size_t other = 0; other < all.size(); ++other) EXPECT_EQ(all[other], std::to_string(other));
    }
  });
  EXPECT_EQ(thrown, nothing_thrown(64));
}

TEST(Exchange, OneProcessNeedsNobody) {
  Peers peers(World{}, {});
  EXPECT_EQ(peers.all_gather("a", "mine"), std::vector<std::string>{"mine"});
  EXPECT_EQ(peers.gather("a", "mine"), std::vector<std::string>{"mine"});
  EXPECT_EQ(peers.broadcast("a", "mine"), "mine");
  peers.barrier("a");
  peers.fail("no luck");
  EXPECT_EQ(peers.failure()->what, "no luck");
  EXPECT_THROW(peers.barrier("a"), std::exception);
}

TEST(Exchange, DifferentCallsAreAnErrorOnAllRanks) {
  Group run(2);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    if (rank == 0)
      peers.barrier("epoch");
    else
      peers.all_gather("epoch", "x");
  });
  EXPECT_NE(thrown[0].find("of 'epoch' where rank"), std::string::npos) << thrown[0];
  EXPECT_EQ(thrown[0], thrown[1]);
}

TEST(Exchange, ImpossibleOnesAreRefusedHere) {
  Group run(2);
  const auto thrown = as_ranks(run, {}, [](int32_t, Peers& peers) {
    EXPECT_THROW(peers.barrier(std::string(1025, 'c')), std::exception);
    peers.barrier(std::string(1024, 'c'));
  });
  EXPECT_EQ(thrown, nothing_thrown(2));
}

TEST(Store, AValueComesToWhoAskedBeforeAndAfter) {
  Group run(3);
  const auto thrown = as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    if (rank == 1) {
      peers.barrier("others ask");
      std::this_thread::sleep_for(Milliseconds(20));
      peers.put("key", "first");
      EXPECT_EQ(peers.get("key", Milliseconds(0)), "first");
      peers.barrier("others have it");
      peers.put("key", std::string(200'000, 'x'));
      peers.put("empty", "");
      return peers.barrier("done");
    }
    EXPECT_EQ(peers.get("key", Milliseconds(0)), std::nullopt);
    peers.barrier("others ask");
    EXPECT_EQ(peers.get("key", std::chrono::seconds(20)), "first");
    peers.barrier("others have it");
    EXPECT_EQ(peers.get("empty", std::chrono::seconds(20)), "");
    EXPECT_EQ(peers.get("key", Milliseconds(0)), std::string(200'000, 'x'));
    EXPECT_EQ(peers.get("nobody sets it", Milliseconds(50)), std::nullopt);
    peers.barrier("done");
  });
  EXPECT_EQ(thrown, nothing_thrown(3));
}

TEST(Store, IsThereWithOneProcess) {
  Peers alone(World(), {});
  EXPECT_EQ(alone.get("key", Milliseconds(0)), std::nullopt);
  std::thread later([&] { alone.put("key", "value"); });
  EXPECT_EQ(alone.get("key", std::chrono::seconds(20)), "value");
  later.join();
}

TEST(Store, WaitsOfAllThreadsEndWithTheRun) {
  Group run(2);
  as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    if (rank == 1) {
      peers.barrier("they wait");
      std::this_thread::sleep_for(Milliseconds(20));
      return peers.fail("no more");
    }
    const auto wait = [&] {
      EXPECT_EQ(error_of([&] { peers.get("never", std::chrono::seconds(60)); }),
                "rank 1 (host " + host_name() + "): no more");
    };
    std::thread other(wait);
    peers.barrier("they wait");
    wait();
    other.join();
  });
}

TEST(Store, AndExchangesCanBeGivenUp) {
  Group run(2);
  as_ranks(run, {}, [](int32_t rank, Peers& peers) {
    if (rank == 0) {
      int asked = 0;
      const auto stop = [&] { return ++asked > 2; };
      EXPECT_EQ(error_of([&] { peers.get("never", std::chrono::seconds(60), stop); }),
                "told to stop while waiting for other ranks");
      EXPECT_EQ(error_of([&] { peers.all_gather("never", "", stop); }),
                "told to stop while waiting for other ranks");
    }
    peers.barrier("others");
  });
}

// Two connected sockets: what is written into one is read from the other.
struct Pair {
  Pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0) write = Socket(ends[0]), read = Socket(ends[1]);
  }
  void put(std::string_view bytes) const {
    ASSERT_EQ(::send(write.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  Socket write, read;
};

TEST(Frame, ComesWholeFromSingleBytes) {
  const Pair pair;
  FrameReader reader(1000);
  const std::string bytes = head_of(FrameType::exchange, 3, "loss", 5) + "12345" + encode(FrameType::pulse);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(reader.next() && i != 25) << i;
    pair.put(bytes.substr(i, 1));
    ASSERT_EQ(reader.receive(pair.read.fd(), 0), FrameReader::Input::some);
    if (i != 24) continue;
    const auto frame = reader.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->type, FrameType::exchange);
    EXPECT_EQ(frame->detail, 3);
    EXPECT_EQ(frame->channel, "loss");
    EXPECT_EQ(frame->body, "12345");
  }
  const auto last = reader.next();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->type, FrameType::pulse);
  EXPECT_EQ(last->body, "");
}

TEST(Frame, SeveralComeAtOnce) {
  const Pair pair;
  pair.put(encode(FrameType::state, "one") + encode(FrameType::state, "two") +
           encode(FrameType::state, "three"));
  FrameReader reader(1000);
  ASSERT_EQ(reader.receive(pair.read.fd(), 0), FrameReader::Input::some);
  EXPECT_EQ(reader.next()->body, "one");
  EXPECT_EQ(reader.next()->body, "two");
  EXPECT_EQ(reader.next()->body, "three");
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.receive(pair.read.fd(), MSG_DONTWAIT), FrameReader::Input::none);
}

TEST(Frame, LargeBodiesComeInPieces) {
  const Pair pair;
  const std::string body(3'000'000, 'b');
  std::thread writer([&] {
    const std::string bytes = encode(FrameType::exchange, body);
    std::size_t sent = 0;
    while (sent < bytes.size())
      sent += static_cast<std::size_t>(::send(pair.write.fd(), bytes.data() + sent, bytes.size() - sent, 0));
  });
  FrameReader reader(kMaxBody);
  std::optional<Frame> frame;
  while (!(frame = reader.next())) ASSERT_EQ(reader.receive(pair.read.fd(), 0), FrameReader::Input::some);
  writer.join();
  EXPECT_EQ(frame->body, body);
}

TEST(Frame, WhatIsNoneIsRefused) {
  const Pair pair;
  pair.put("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n");
  FrameReader reader(1000);
  ASSERT_EQ(reader.receive(pair.read.fd(), 0), FrameReader::Input::some);
  EXPECT_THROW(reader.next(), Error);
}

TEST(Frame, WhatIsTooLargeIsRefusedBeforeItComes) {
  const Pair pair;
  pair.put(head_of(FrameType::hello, 0, {}, 1001));
  FrameReader reader(1000);
  ASSERT_EQ(reader.receive(pair.read.fd(), 0), FrameReader::Input::some);
  EXPECT_EQ(error_of([&] { reader.next(); }), "a message of 1001 bytes came, at most 1000 are allowed");
}

TEST(Frame, TheEndIsSeen) {
  Pair pair;
  pair.write.close();
  FrameReader reader(1000);
  EXPECT_EQ(reader.receive(pair.read.fd(), 0), FrameReader::Input::end);
}

}  // namespace
}  // namespace pipeline::peers
