// What is sent over a connection: a header of 16 bytes (in the hosts' byte order, which must be the same),
// a channel's name, a body.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/peers/background.hpp"

namespace pipeline::peers {

enum class FrameType : uint8_t {
  hello = 1,  // rank to server: who I am
  challenge,  // server to rank: prove that you know the run's secret, as I do here
  answer,     // rank to server: the proof
  admit,      // server to rank: you may join
  admitted,   // rank to server: I have joined; from now on its loss is a failure
  refused,    // server to rank: you may not, and why
  ready,      // server to all: all ranks have joined
  pulse,      // server to all, about once a second: I am alive; before `ready`, who is missing
  state,      // rank to server, about once a second: what I am doing
  exchange,   // rank to server: my part
  reply,      // server to rank: everybody's parts
  put,        // rank to server: a value for the store
  get,        // rank to server: I want the value, now or when it is set
  value,      // server to rank: the value, or that it is not set
  fail,       // rank to server: I have failed
  failed,     // server to all: the failure of the run
  leave,      // rank to server: normal end; answered by closing the connection
  goodbye,    // server to all: rank 0 ends
};

struct Frame {
  FrameType type{};
  uint8_t detail = 0;   // exchange: its kind; fail: the error's code; get: 1 to wait; value: 1 if set
  std::string channel;  // exchange and reply; put, get and value: the key
  std::string body;
};

constexpr std::size_t kMaxChannel = 1024;
constexpr uint64_t kMaxBody = uint64_t{1} << 30;
constexpr uint64_t kMaxStrangersBody = 4096;

// The header and the channel's name, which precede the body.
std::string head_of(FrameType type, uint8_t detail, std::string_view channel, uint64_t body_size);
std::string encode(FrameType type, std::string_view body = {}, uint8_t detail = 0);

// Splits a stream into frames.
class FrameReader {
 public:
  explicit FrameReader(uint64_t max_body) : max_body_(max_body) {}
  void set_max_body(uint64_t bytes) { max_body_ = bytes; }

  enum class Input { some, none, end };  // none: no data now (MSG_DONTWAIT); end: closed or broken
  // Reads a socket once. Call it when next() returns nothing.
  Input receive(int fd, int flags);

  // Returns the next complete frame. Throws Error (PL_ERROR_CORRUPT) if the stream does not consist of
  // frames or a body is too large.
  std::optional<Frame> next();

  // True if only part of an exchange's body has arrived.
  bool in_exchange() const {
    return begun_ && (frame_.type == FrameType::exchange || frame_.type == FrameType::reply);
  }

 private:
  bool begin();

  uint64_t max_body_;
  std::array<char, 4096> buffer_{};
  std::size_t from_ = 0, to_ = 0;  // range of the data in the buffer
  Frame frame_;                    // the one being read
  bool begun_ = false;
  std::size_t filled_ = 0;  // of its body
};

using Deadline = std::optional<Clock::time_point>;

// Waits until there is room (POLLOUT) or something to read (POLLIN); false if the time is up.
bool wait_for(int fd, short what, Deadline deadline);

// Sends what there is room for, and takes it off. False: the connection is broken.
bool send_some(int fd, std::string_view& head, std::string_view& body);

// Sends everything; false: the connection is broken, or the time is up.
bool send_all(int fd, std::string_view head, std::string_view body = {}, Deadline deadline = {});

// Sends whole frames on a connection. [any-thread]
class Sender {
 public:
  explicit Sender(int fd) : fd_(fd) {}

  // False: not sent, because the connection is broken or the time is up.
  bool send(FrameType type, uint8_t detail, std::string_view channel, std::string_view body,
            Deadline deadline = {});

  // Never blocks. Sends nothing while another thread sends or the previous such frame is not fully sent. If
  // there is room for only part of the frame, sends the rest later.
  void try_to_send(const std::string& frame);

 private:
  const int fd_;
  TimedMutex mutex_;
  // Used with the mutex held:
  std::string rest_;  // of try_to_send()
  bool cut_ = false;  // a frame went out in part and never will in whole
};

}  // namespace pipeline::peers
