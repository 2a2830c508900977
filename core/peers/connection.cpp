#include "core/peers/connection.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace pipeline::peers {
namespace {

// `bytes` without its first `skip`, of which what is skipped is taken off.
iovec rest_of(const std::string& bytes, std::size_t& skip) {
  const std::size_t n = std::min(skip, bytes.size());
  skip -= n;
  return {const_cast<char*>(bytes.data()) + n, bytes.size() - n};
}

}  // namespace

Connection::Connection(Socket socket, std::string address, Clock::time_point since)
    : socket_(std::move(socket)), address_(std::move(address)), since_(since) {}

void Connection::queue(std::string head, Bytes body) { queue_.push_back({std::move(head), std::move(body)}); }

void Connection::forget_queue() { queue_.erase(queue_.begin() + (sent_ > 0 ? 1 : 0), queue_.end()); }

std::size_t Connection::flush() {
  static const std::string kNothing;
  std::size_t total = 0;
  while (!queue_.empty()) {
    const Outgoing& first = queue_.front();
    const std::string& body = first.body ? *first.body : kNothing;
    std::size_t skip = sent_;
    std::array<iovec, 2> parts;
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = rest_of(i == 0 ? first.head : body, skip);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t n = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) {
      queue_.clear();  // what it has sent before can still be read
      sent_ = 0;
      break;
    }
    total += static_cast<std::size_t>(n);
    sent_ += static_cast<std::size_t>(n);
    if (sent_ == first.head.size() + body.size()) {
      queue_.pop_front();
      sent_ = 0;
    }
  }
  return total;
}

void Connection::finish() { ::shutdown(fd(), SHUT_WR); }

}  // namespace pipeline::peers
