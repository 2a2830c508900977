#include "core/base/free_port.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/error.hpp"

namespace pipeline {

namespace {

// Binds a socket to the port on every interface, 0 for any free one, and gives the port back; 0 if that
// cannot be. errno says why.
std::uint16_t bound_port(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  const bool bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int problem = errno;
  if (fd >= 0) ::close(fd);
  errno = problem;
  return bound ? ntohs(address.sin_port) : std::uint16_t{0};
}

// The first port that the kernel gives to outgoing connections.
unsigned first_outgoing_port() {
  unsigned first = 32768;  // the kernel's default
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  return first;
}

constexpr unsigned kFirst = 10'000;
constexpr int kAttempts = 100;

}  // namespace

std::uint16_t free_port() {
  // Between now and the moment when somebody listens there, any connection of this host may be given one of
  // the outgoing ports.
  const unsigned end = first_outgoing_port();
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts && end > kFirst + 1000; ++attempt) {
    const auto port = static_cast<std::uint16_t>(kFirst + random() % (end - kFirst));
    if (bound_port(port) != 0) return port;
  }
  if (const std::uint16_t port = bound_port(0); port != 0) return port;
  throw Error(std::string("no free TCP port: ") + std::strerror(errno));
}

}  // namespace pipeline
