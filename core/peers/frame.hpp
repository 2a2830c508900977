// What goes over a connection: a header of 16 bytes (in the byte order of the hosts, which have to agree on
// it), a channel's name, a body.
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
  seat,       // server to rank: you may come in
  seated,     // rank to server: I am in; from now on its loss is a failure
  refused,    // server to rank: you may not, and why
  ready,      // server to all: everybody is there
  pulse,      // server to all, about once a second: still there; before `ready`, who is missing
  state,      // rank to server, about once a second: what I am doing
  exchange,   // rank to server: my part
  reply,      // server to rank: everybody's parts
  put,        // rank to server: a value for the store
  get,        // rank to server: I want the value, now or when it is there
  value,      // server to rank: the value, or that it is not there
  fail,       // rank to server: I have failed
  failed,     // server to all: the failure of the run
  leave,      // rank to server: a good end; answered by closing the connection
  goodbye,    // server to all: rank 0 ends
};

struct Frame {
  FrameType type{};
  uint8_t detail = 0;   // exchange: its kind; fail: the error's code; get: 1 to wait; value: 1 if it is there
  std::string channel;  // exchange and reply; put, get and value: the key
  std::string body;
};

constexpr std::size_t kMaxChannel = 1024;
constexpr uint64_t kMaxBody = uint64_t{1} << 30;
constexpr uint64_t kMaxStrangersBody = 4096;

// The header and the channel's name: what stands before the body.
std::string head_of(FrameType type, uint8_t detail, std::string_view channel, uint64_t body_size);
std::string encode(FrameType type, std::string_view body = {}, uint8_t detail = 0);

// Takes frames out of a stream.
class FrameReader {
 public:
  explicit FrameReader(uint64_t max_body) : max_body_(max_body) {}
  void set_max_body(uint64_t bytes) { max_body_ = bytes; }

  enum class Input { some, none, end };  // none: nothing there now (MSG_DONTWAIT); end: closed or broken
  // One read of a socket. Call it when next() has nothing.
  Input receive(int fd, int flags);

  // The next frame that is complete. Throws Error (PL_ERROR_CORRUPT) when the stream is not one of frames or
  // a body is too large.
  std::optional<Frame> next();

  // Part of an exchange's body is there and the rest is not.
  bool in_exchange() const {
    return begun_ && (frame_.type == FrameType::exchange || frame_.type == FrameType::reply);
  }

 private:
  bool begin();

  uint64_t max_body_;
  std::array<char, 4096> buffer_{};
  std::size_t from_ = 0, to_ = 0;  // of what is in the buffer
  Frame frame_;                    // the one that has begun
  bool begun_ = false;
  std::size_t filled_ = 0;  // of its body
};

using Deadline = std::optional<Clock::time_point>;

// Waits until there is room (POLLOUT) or something to read (POLLIN); false when the time is up.
bool wait_for(int fd, short what, Deadline deadline);

// Sends what there is room for, and takes it off. False: the connection is broken.
bool send_some(int fd, std::string_view& head, std::string_view& body);

// Sends it all; false: the connection is broken, or the time is up.
bool send_all(int fd, std::string_view head, std::string_view body = {}, Deadline deadline = {});

// Sends whole frames on a connection, whoever calls. [any-thread]
class Sender {
 public:
  explicit Sender(int fd) : fd_(fd) {}

  // False: not sent, since the connection is broken or the time is up.
  bool send(FrameType type, uint8_t detail, std::string_view channel, std::string_view body,
            Deadline deadline = {});

  // Never waits. Sends nothing while another thread sends or the last one of these is not out, and finishes
  // it later if there is room for a part only.
  void try_to_send(const std::string& frame);

 private:
  const int fd_;
  TimedMutex mutex_;
  // With the mutex:
  std::string rest_;  // of try_to_send()
  bool cut_ = false;  // a frame went out in part and never will in whole
};

}  // namespace pipeline::peers
