#include "core/peers/frame.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "tests/peers/ranks.hpp"

namespace pipeline::peers {
namespace {

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
