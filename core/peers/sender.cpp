#include "core/peers/sender.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

namespace pipeline::peers {
namespace {

// Sends what there is room for, and takes it off `bytes`. False: the connection is broken.
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

// False: broken, or the time is up.
bool send_all(int fd, std::string_view head, std::string_view body, Deadline deadline) {
  for (;;) {
    if (!send_some(fd, head, body)) return false;
    if (head.empty() && body.empty()) return true;
    if (!wait_for(fd, POLLOUT, deadline)) return false;
  }
}

}  // namespace

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

bool Sender::send(FrameType type, uint8_t detail, std::string_view channel, std::string_view body,
                  Deadline deadline) {
  std::unique_lock lock(turn_, std::defer_lock);
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
  const std::unique_lock lock(turn_, std::try_to_lock);
  if (!lock || cut_) return;
  if (rest_.empty()) rest_ = frame;
  std::string_view left = rest_, nothing;
  send_some(fd_, left, nothing);
  rest_.erase(0, rest_.size() - left.size());
}

}  // namespace pipeline::peers
