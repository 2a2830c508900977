#include "core/peers/frame.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/base/hash.hpp"
#include "core/base/socket.hpp"
#include "core/json/strict_json.hpp"

namespace pipeline::peers {
namespace {

struct Header {
  std::array<char, 4> magic = {'P', 'L', 'p', '1'};
  FrameType type{};
  uint8_t detail = 0;
  uint16_t channel_size = 0;
  uint64_t body_size = 0;
};
static_assert(sizeof(Header) == 16);

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hello, version, run_id, host, rank, size, process, nonce)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Challenge, nonce, proof)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Refusal, why, code, passing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Failure, rank, host, what, by_peer_loss)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Verdict, failure, code)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(State, phase, step, seconds, moves, collective)

// Names of hosts and texts of errors need not be UTF-8.
template <class Message>
std::string json_text(const Message& message) {
  using nlohmann::json;
  return json(message).dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class Message>
Message parse(std::string_view text) {
  try {
    const nlohmann::json json = strict_json::parse(text, Message::kName);
    return json.get<Message>();
  } catch (const std::exception& e) {
    throw Error(PL_ERROR_CORRUPT, std::string(Message::kName) + " cannot be read: " + e.what());
  }
}

template std::string json_text(const Hello&);
template std::string json_text(const Challenge&);
template std::string json_text(const Refusal&);
template std::string json_text(const Verdict&);
template std::string json_text(const State&);
template Hello parse(std::string_view);
template Challenge parse(std::string_view);
template Refusal parse(std::string_view);
template Verdict parse(std::string_view);
template State parse(std::string_view);

Hello hello_of(const World& world) {
  return {PIPELINE_VERSION, world.run_id, host_name(), world.rank, world.size, ::getpid(), random_secret()};
}

std::string proof_by(Prover who, std::string_view secret, std::string_view nonce, std::string_view greeting) {
  std::string text(1, static_cast<char>(who));
  text += to_hex(sha256(nonce));  // of one length, whatever a stranger sends
  text += greeting;
  return to_hex(hmac_sha256(secret, text));
}

std::string head_of(FrameType type, uint8_t detail, std::string_view channel, uint64_t body_size) {
  const Header header{{'P', 'L', 'p', '1'}, type, detail, static_cast<uint16_t>(channel.size()), body_size};
  std::string head(sizeof header + channel.size(), '\0');
  std::memcpy(head.data(), &header, sizeof header);
  channel.copy(head.data() + sizeof header, channel.size());
  return head;
}

std::string encode(FrameType type, std::string_view body, uint8_t detail) {
  std::string bytes = head_of(type, detail, {}, body.size());
  bytes += body;
  return bytes;
}

FrameReader::Input FrameReader::receive(int fd, int flags) {
  char* into = nullptr;
  std::size_t room = 0;
  if (begun_ && frame_.body.size() - filled_ >= buffer_.size()) {  // much is to come: without the detour
    into = frame_.body.data() + filled_;
    room = frame_.body.size() - filled_;
  } else {
    std::memmove(buffer_.data(), buffer_.data() + from_, to_ - from_);
    to_ -= std::exchange(from_, 0);
    into = buffer_.data() + to_;
    room = buffer_.size() - to_;
  }
  ssize_t n = 0;
  do n = ::recv(fd, into, room, flags);
  while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Input::none;
  if (n <= 0) return Input::end;
  (into == buffer_.data() + to_ ? to_ : filled_) += static_cast<std::size_t>(n);
  return Input::some;
}

bool FrameReader::begin() {
  Header header;
  if (to_ - from_ < sizeof header) return false;
  std::memcpy(&header, buffer_.data() + from_, sizeof header);
  if (header.magic != Header{}.magic)
    throw Error(PL_ERROR_CORRUPT, "what came is not a message of this program");
  if (header.channel_size > kMaxChannel || header.body_size > max_body_)
    fail(PL_ERROR_CORRUPT, "a message of {} bytes came, at most {} are allowed", header.body_size, max_body_);
  if (to_ - from_ < sizeof header + header.channel_size) return false;
  from_ += sizeof header;
  frame_.type = header.type;
  frame_.detail = header.detail;
  frame_.channel.assign(buffer_.data() + from_, header.channel_size);
  from_ += header.channel_size;
  frame_.body.resize(header.body_size);
  filled_ = 0;
  return true;
}

std::optional<Frame> FrameReader::next() {
  if (!begun_ && !(begun_ = begin())) return std::nullopt;
  const std::size_t n = std::min(to_ - from_, frame_.body.size() - filled_);
  std::memcpy(frame_.body.data() + filled_, buffer_.data() + from_, n);
  from_ += n;
  filled_ += n;
  if (filled_ < frame_.body.size()) return std::nullopt;
  begun_ = false;
  return std::exchange(frame_, Frame{});
}

bool send_some(int fd, std::string_view& head, std::string_view& body) {
  std::array<iovec, 2> parts{
      {{const_cast<char*>(head.data()), head.size()}, {const_cast<char*>(body.data()), body.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
  const std::size_t of_head = std::min(static_cast<std::size_t>(n), head.size());
  head.remove_prefix(of_head);
  body.remove_prefix(static_cast<std::size_t>(n) - of_head);
  return true;
}

bool wait_for(int fd, short what, Deadline deadline) {
  for (;;) {
    int milliseconds = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      if (left <= 0) return false;
      milliseconds = static_cast<int>(left);
    }
    pollfd wait{fd, what, 0};
    if (::poll(&wait, 1, milliseconds) > 0) return true;
  }
}

bool send_all(int fd, std::string_view head, std::string_view body, Deadline deadline) {
  for (;;) {
    if (!send_some(fd, head, body)) return false;
    if (head.empty() && body.empty()) return true;
    if (!wait_for(fd, POLLOUT, deadline)) return false;
  }
}

bool Sender::send(FrameType type, uint8_t detail, std::string_view channel, std::string_view body,
                  Deadline deadline) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!deadline)
    lock.lock();
  else if (!lock.try_lock_until(*deadline))
    return false;
  if (cut_) return false;
  const std::string head = std::exchange(rest_, {}) + head_of(type, detail, channel, body.size());
  cut_ = !send_all(fd_, head, body, deadline);
  return !cut_;
}

void Sender::try_to_send(const std::string& frame) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || cut_) return;
  if (rest_.empty()) rest_ = frame;
  std::string_view left = rest_, nothing;
  send_some(fd_, left, nothing);
  rest_.erase(0, rest_.size() - left.size());
}

}  // namespace pipeline::peers
