// What is sent over a connection: a header of 16 bytes (in the hosts' byte order, which must be the same),
// a channel's name, a body.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/world.hpp"
#include "core/peers/background.hpp"
#include "core/peers/peers.hpp"

namespace pipeline::peers {

// What the frames carry, as JSON.

// Who wants to join. This struct and its JSON must stay readable for all versions of the program: otherwise
// two versions could not report that they differ.
struct Hello {
  static constexpr const char* kName = "a greeting";
  std::string version;  // of the program
  std::string run_id;
  std::string host;
  int32_t rank = 0, size = 1;
  int64_t process = 0;
  std::string nonce;  // different each time
};
Hello hello_of(const World& world);

// How either end proves that it knows the run's secret: an HMAC over random values that both have chosen.
// The rank's nonce is in its greeting, so the proof covers the greeting, too.
struct Challenge {
  static constexpr const char* kName = "a challenge";
  std::string nonce;
  std::string proof;  // rank 0's
};

enum class Prover : char { rank_0 = '0', other = 'r' };  // else a proof could be sent back to its maker
std::string proof_by(Prover who, std::string_view secret, std::string_view nonce, std::string_view greeting);

// Why a process is turned away.
struct Refusal {
  static constexpr const char* kName = "a refusal";
  std::string why;
  uint32_t code = 0;
  bool passing =
      false;  // trying again may help: that port is held by another run or the end of an earlier attempt
};

struct Verdict {
  static constexpr const char* kName = "a failure";
  Failure failure;
  uint32_t code = 0;
};

// What a rank is doing.
struct State {
  static constexpr const char* kName = "a rank's state";
  std::string phase = "start";
  uint64_t step = 0;
  double seconds = 0;      // since when
  uint64_t moves = 0;      // how often it has reported progress
  std::string collective;  // that it waits in; empty: none
};

// For the five structs above. Reading throws Error (PL_ERROR_CORRUPT) for any other text.
template <class Message>
std::string json_text(const Message& message);
template <class Message>
Message parse(std::string_view text);

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
