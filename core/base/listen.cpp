// Where rank 0 waits for the others, and who has the port if it cannot.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/socket.hpp"

namespace pipeline {
namespace {

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
  std::string command((std::istreambuf_iterator<char>(file)), {});
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
  throw Error(
      fmt::format("rank 0 (host {}) cannot listen at {}: {}\n"
                  "end that process, or choose another port: MASTER_PORT, or --master-port, on all hosts",
                  host_name(), where, why_not_listening(problem, world.port)));
}

}  // namespace

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
