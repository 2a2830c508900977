#include "core/base/socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/error.hpp"

namespace pipeline {
namespace {

using std::chrono::milliseconds;

// Waits until a connection that has begun is made; its error, 0 if it is.
int finish_connecting(int fd, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  pollfd wait{fd, POLLOUT, 0};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    const int n = ::poll(&wait, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (n > 0) break;
    if (n == 0) return ETIMEDOUT;
    if (errno != EINTR) return errno;
  }
  int problem = 0;
  socklen_t size = sizeof problem;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size);
  return problem;
}

// A port of this host to which nobody listens may be given to the very socket that tries to connect to it.
bool is_connected_to_itself(int fd) {
  Address mine, other;
  mine.length = other.length = sizeof(sockaddr_storage);
  return ::getsockname(fd, mine.get(), &mine.length) == 0 &&
         ::getpeername(fd, other.get(), &other.length) == 0 && to_text(mine) == to_text(other);
}

}  // namespace

Pipe::Pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  out = Descriptor(ends[0]);
  in = Descriptor(ends[1]);
}

bool Address::is_loopback() const {
  if (storage.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
  const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
  return storage.ss_family == AF_INET && (ntohl(address.sin_addr.s_addr) >> 24) == 127;
}

uint16_t Address::port() const {
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

std::string to_text(const Address& address) {
  if (address.storage.ss_family != AF_INET && address.storage.ss_family != AF_INET6) return "this process";
  std::array<char, NI_MAXHOST> host{};
  ::getnameinfo(address.get(), address.length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return to_text(host.data(), address.port());
}

std::string to_text(std::string_view host, uint16_t port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port)
                                                  : fmt::format("[{}]:{}", host, port);
}

std::optional<HostPort> split_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  HostPort parts{.host = std::string(host)};
  const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), parts.port);
  if (problem != std::errc() || end != port.data() + port.size() || host.empty() ||
      bracketed != (host.find(':') != std::string_view::npos))
    return std::nullopt;
  return parts;
}

Resolved resolve(const std::string& name, uint16_t port) {
  Resolved result;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    result.problem = error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error);
    result.for_good = error == EAI_NONAME;
    return result;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    Address& address = result.addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
  }
  return result;
}

bool is_elsewhere(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  const Socket socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && ::bind(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 && errno == EADDRNOTAVAIL;
}

Socket connect_to(const Address& address, milliseconds limit) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  int problem = 0;
  if (::connect(socket.fd(), address.get(), address.length) != 0) {
    problem = errno;
    if (problem == EINPROGRESS || problem == EINTR) problem = finish_connecting(socket.fd(), limit);
  }
  if (problem == 0 && is_connected_to_itself(socket.fd())) problem = ECONNREFUSED;
  if (problem == 0) {
    ::fcntl(socket.fd(), F_SETFL, ::fcntl(socket.fd(), F_GETFL) & ~O_NONBLOCK);
    prepare(socket.fd());
  } else {
    socket.close();
  }
  errno = problem;
  return socket;
}

void prepare(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on,
               sizeof on);  // fails for a socket that is not TCP's, which needs none of it
}

bool Reachability::lost(int fd, std::chrono::duration<double> now) {
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool is_tcp = ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  // A full window is probed and an overfull one sent into again, at growing intervals: what counts is that
  // the last of it was answered.
  const bool sent_in_vain =
      info.tcpi_unacked > 0 && info.tcpi_last_ack_recv > info.tcpi_last_data_sent + 1500;
  const bool owes_answer = is_tcp && (sent_in_vain || info.tcpi_probes > 1);
  if (!owes_answer || std::exchange(first_, false)) answered_ = now;
  return now - answered_ > kPatience;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

}  // namespace pipeline
