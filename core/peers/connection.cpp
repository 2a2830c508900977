#include "core/peers/server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace pipeline::peers {

Connection::Connection(Socket socket, std::string address, Clock::time_point since)
    : socket_(std::move(socket)), address_(std::move(address)), since_(since) {}

void Connection::queue(std::string head, Bytes body) { queue_.push_back({std::move(head), std::move(body)}); }

void Connection::forget_queue() { queue_.erase(queue_.begin() + (sent_ > 0 ? 1 : 0), queue_.end()); }

std::size_t Connection::flush() {
  std::size_t total = 0;
  while (!queue_.empty()) {
    const Outgoing& first = queue_.front();
    std::string_view head = first.head, body;
    if (first.body) body = *first.body;
    const std::size_t of_head = std::min(sent_, head.size());
    head.remove_prefix(of_head);
    body.remove_prefix(sent_ - of_head);
    const std::size_t left = head.size() + body.size();
    if (!send_some(fd(), head, body)) {
      queue_.clear();  // what it has sent before can still be read
      sent_ = 0;
      break;
    }
    const std::size_t sent = left - head.size() - body.size();
    total += sent;
    sent_ += sent;
    if (sent < left) break;
    queue_.pop_front();
    sent_ = 0;
  }
  return total;
}

void Connection::finish() { ::shutdown(fd(), SHUT_WR); }

}  // namespace pipeline::peers
