#include "backends/common/watch.hpp"

#include <pipeline/error.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace pipeline::backends {
namespace {

constexpr int kPatience = 10'000;  // milliseconds, for a connection
constexpr int kBacklog = 4096;     // ranks of a group; the system may allow fewer
constexpr char kGoodbye = 'g', kFailure = 'f';

bool is_v6(const std::string& ip) { return ip.find(':') != std::string::npos; }

// All addresses for an empty `ip`.
socklen_t fill_address(sockaddr_storage& out, bool v6, const std::string& ip, uint32_t port) {
  if (v6) {
    auto& address = reinterpret_cast<sockaddr_in6&>(out);
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    if (!ip.empty()) ::inet_pton(AF_INET6, ip.c_str(), &address.sin6_addr);
    return sizeof address;
  }
  auto& address = reinterpret_cast<sockaddr_in&>(out);
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (!ip.empty()) ::inet_pton(AF_INET, ip.c_str(), &address.sin_addr);
  return sizeof address;
}

int connect_to(const Watch::Peer& peer) {
  sockaddr_storage address{};
  const socklen_t size = fill_address(address, is_v6(peer.ip), peer.ip, peer.port);
  const int fd = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int problem = 0;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) problem = errno;
  if (problem == EINPROGRESS) {
    pollfd waiting{fd, POLLOUT, 0};
    socklen_t length = sizeof problem;
    if (::poll(&waiting, 1, kPatience) != 1)
      problem = ETIMEDOUT;
    else
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
  }
  if (problem == 0) return fd;
  ::close(fd);
  fail_with(PL_ERROR_PEER, "cannot connect to ", peer.ip, " port ", peer.port, ": ", std::strerror(problem));
}

}  // namespace

Watch::Watch(const std::string& like) {
  sockaddr_storage address{};
  socklen_t size = fill_address(address, is_v6(like), "", 0);
  listening_ = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  if (listening_ < 0 || stop_ < 0 || ::bind(listening_, raw, size) != 0 ||
      ::listen(listening_, kBacklog) != 0 || ::getsockname(listening_, raw, &size) != 0) {
    const int problem = errno;
    for (const int fd : {listening_, stop_})
      if (fd >= 0) ::close(fd);
    fail("cannot listen on any port: ", std::strerror(problem));
  }
  port_ = ntohs(is_v6(like) ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                            : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

Watch::~Watch() {
  leave("");
  const uint64_t one = 1;
  if (thread_.joinable() && ::write(stop_, &one, sizeof one) == sizeof one) thread_.join();
  for (const Watched& peer : watched_)
    if (peer.fd >= 0) ::close(peer.fd);
  ::close(stop_);
}

void Watch::start(const std::vector<Peer>& peers, int32_t rank, Told told) {
  told_ = std::move(told);
  for (size_t r = 0; r < peers.size(); ++r) {
    if (static_cast<int32_t>(r) != rank)
      watched_.push_back({static_cast<int32_t>(r), connect_to(peers[r]), ""});
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Watch::leave(const std::string& why) noexcept {
  if (left_.exchange(true)) return;
  for (;;) {
    const int fd = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0 && errno == ECONNABORTED) continue;
    if (fd < 0) break;
    const iovec parts[] = {{const_cast<char*>(why.empty() ? &kGoodbye : &kFailure), 1},
                           {const_cast<char*>(why.data()), why.size()}};
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts);
    message.msg_iovlen = 2;
    ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    ::close(fd);
  }
  ::close(listening_);
}

void Watch::watch() {
  for (;;) {
    std::vector<pollfd> polled{{stop_, POLLIN, 0}};
    for (const Watched& peer : watched_) polled.push_back({peer.fd, POLLIN, 0});  // negative: left out
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[0].revents != 0) return;
    for (size_t i = 0; i < watched_.size(); ++i) {
      Watched& peer = watched_[i];
      if (polled[i + 1].revents == 0 || hear(peer)) continue;
      ::close(peer.fd);
      peer.fd = -1;
      const char kind = peer.said.empty() ? '\0' : peer.said[0];
      told_(peer.rank,
            kind == kGoodbye   ? End::kLeft
            : kind == kFailure ? End::kFailed
                               : End::kDied,
            kind == '\0' ? "" : peer.said.substr(1));
    }
  }
}

// False: the connection has ended.
bool Watch::hear(Watched& peer) {
  char text[1024];
  for (;;) {
    const ssize_t got = ::recv(peer.fd, text, sizeof text, 0);
    if (got > 0)
      peer.said.append(text, static_cast<size_t>(got));
    else
      return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
}

}  // namespace pipeline::backends
