#include "core/base/socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"

// Where rank 0 waits for the others, and who has the port if it cannot.

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

namespace fs = std::filesystem;

// The inode of the socket that listens at the port, from a table of /proc/net; empty: none.
std::string listening_inode(const char* table, uint16_t port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the columns' names
  const std::string suffix = fmt::format(":{:04X}", port);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >>
        inode;
    if (state == "0A" && local.ends_with(suffix)) return inode;
  }
  return {};
}

bool has_open(const fs::path& process, const std::string& socket) {
  std::error_code ignored;  // processes end while they are looked at, and others' are closed to us
  for (fs::directory_iterator entry(process / "fd", ignored), end; entry != end; entry.increment(ignored))
    if (fs::read_symlink(entry->path(), ignored) == socket) return true;
  return false;
}

std::string command_of(const fs::path& process) {
  std::ifstream file(process / "cmdline", std::ios::binary);
  std::string command = rest_of(file);
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::replace(command.begin(), command.end(), '\0', ' ');
  constexpr size_t kEnough = 100;
  return command.size() <= kEnough ? command : command.substr(0, kEnough) + "...";
}

// Who listens at a port of this host, "process 1234 (python train.py)", as far as /proc shows it; otherwise
// empty.
std::string port_owner(uint16_t port) {
  std::string inode = listening_inode("/proc/net/tcp", port);
  if (inode.empty()) inode = listening_inode("/proc/net/tcp6", port);
  if (inode.empty()) return {};
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; entry != end; entry.increment(ignored)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos ||
        !has_open(entry->path(), "socket:[" + inode + "]"))
      continue;
    return fmt::format("process {} ({})", name, command_of(entry->path()));
  }
  return {};
}

// All of this host's addresses: zeros.
Address any_address(sa_family_t family, uint16_t port) {
  Address address;
  address.storage.ss_family = family;
  reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = htons(port);  // where IPv4 has it, too
  address.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return address;
}

// Nobody outside needs to reach a run of one host: its loopback address will do. Of several hosts the name's
// address may not be this host's (a service in front of it), or be its loopback (many /etc/hosts).
Address listening_address(const World& world, uint16_t port) {
  if (world.local_size == world.size) {
    const Resolved resolved = resolve(world.address, port);
    if (!resolved.addresses.empty() && resolved.addresses.front().is_loopback())
      return resolved.addresses.front();
  }
  return any_address(AF_INET6, port);
}

Socket try_to_listen(const World& world, uint16_t port) {
  Socket socket = listen_at(listening_address(world, port));
  if (!socket && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))  // a host without IPv6
    socket = listen_at(any_address(AF_INET, port));
  return socket;
}

[[noreturn]] void cannot_listen(const World& world, int problem) {
  std::string where = to_text(world.address, world.port);
  if (world.port_tries > 1) where += fmt::format(" (nor the {} ports after it)", world.port_tries - 1);
  fail(
      "rank 0 (host {}) cannot listen at {}: {}\n"
      "end that process, or choose another port: MASTER_PORT, or --master-port, on all hosts",
      host_name(), where, why_not_listening(problem, world.port));
}

}  // namespace

Pipe::Pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("cannot make a pipe: {}", std::strerror(errno));
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

Socket listen_at(const Address& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  const int on = 1, off = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6)
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(socket.fd(), address.get(), address.length) == 0 && ::listen(socket.fd(), SOMAXCONN) == 0)
    return socket;
  const int problem = errno;
  socket.close();
  errno = problem;
  return socket;
}

std::string why_not_listening(int problem, uint16_t port) {
  if (problem != EADDRINUSE) return std::strerror(problem);
  const std::string owner = port_owner(port);
  return "the port is in use" +
         (owner.empty() ? " (by a process that cannot be seen from here)" : " by " + owner);
}

Socket listen_for(const World& world) {
  if (world.listen_socket >= 0) {
    ::fcntl(world.listen_socket, F_SETFL, ::fcntl(world.listen_socket, F_GETFL) | O_NONBLOCK);
    ::fcntl(world.listen_socket, F_SETFD, FD_CLOEXEC);  // it came through an exec, and ends here
    return Socket(world.listen_socket);
  }
  int problem = 0;
  for (uint32_t i = 0; i < std::max<uint32_t>(world.port_tries, 1) && world.port + i <= 65535; ++i) {
    if (Socket socket = try_to_listen(world, static_cast<uint16_t>(world.port + i))) return socket;
    problem = errno;
  }
  cannot_listen(world, problem);
}

}  // namespace pipeline
