#include "backends/gloo/network.hpp"

#include <pipeline/error.hpp>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace pipeline::backends::gloo {
namespace {

constexpr const char* kAnyPort = "9";  // routes do not depend on it

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), kAnyPort, &hints, &found);
  if (status != 0) {
    fail("the address ", host, " cannot be resolved (",
         status == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(status),
         "): it must be the host name or IP of rank 0's host, as this host knows it");
  }
  return {found, &::freeaddrinfo};
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string text_of(const sockaddr* address, socklen_t size) {
  char ip[NI_MAXHOST] = "";
  ::getnameinfo(address, size, ip, sizeof ip, nullptr, 0, NI_NUMERICHOST);
  return ip;
}

socklen_t size_of(const sockaddr* address) {
  return address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

bool is_loopback(const std::string& ip) { return ip.rfind("127.", 0) == 0 || ip == "::1"; }

// Every interface's IP addresses.
void for_each_address(const std::function<void(const LocalAddress&, int family)>& visit) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) fail("the network interfaces cannot be listed: ", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, &::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    visit({text_of(at->ifa_addr, size_of(at->ifa_addr)), at->ifa_name, (at->ifa_flags & IFF_LOOPBACK) != 0},
          family);
  }
}

std::string interface_with(const std::string& ip) {
  std::string name;
  for_each_address([&](const LocalAddress& address, int) {
    if (address.ip == ip) name = address.name;
  });
  // All of 127.0.0.0/8 belongs to the loopback interface, which lists 127.0.0.1 alone.
  return name.empty() && is_loopback(ip) ? "lo" : name;
}

}  // namespace

LocalAddress address_towards(const std::string& host) {
  const Addresses found = resolve(host);
  int problem = 0;
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    const Socket socket(::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    // Connecting a datagram socket sends nothing: it asks the routing table.
    if (socket.fd() < 0 || ::connect(socket.fd(), at->ai_addr, at->ai_addrlen) != 0 ||
        ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
      problem = errno;
      continue;
    }
    const std::string ip = text_of(reinterpret_cast<sockaddr*>(&own), size);
    return {ip, interface_with(ip), is_loopback(ip)};
  }
  fail("no interface of this host reaches ", host, ": ", std::strerror(problem));
}

LocalAddress address_of_interface(const std::string& name) {
  std::vector<LocalAddress> found;
  std::string others;
  for_each_address([&](const LocalAddress& address, int family) {
    if (address.name == name) found.insert(family == AF_INET ? found.begin() : found.end(), address);
    if ((", " + others + ",").find(", " + address.name + ",") == std::string::npos)
      others += (others.empty() ? "" : ", ") + address.name;
  });
  if (!found.empty()) return found.front();
  fail_with(PL_ERROR_CONFIG, "this host has no network interface ", name, " with an address; it has ",
            others);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace pipeline::backends::gloo
