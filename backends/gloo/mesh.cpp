#include "backends/gloo/mesh.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/ops/from_blob.h>
#include <pipeline/error.hpp>

#include "backends/common/host_store.hpp"

namespace pipeline::backends::gloo {
namespace {

using std::chrono::milliseconds;

// Timeouts are the Queue's; Gloo would end its own in the middle of a message.
constexpr milliseconds kForever = std::chrono::hours(24 * 365);

constexpr size_t kRetired = 32;

std::vector<at::Tensor> bytes_of(const Piece& piece) {
  return {at::from_blob(piece.data, {static_cast<int64_t>(piece.bytes)}, at::kByte)};
}

// Runs `call`; what Gloo throws there is about the connection to `peer`.
template <class Call>
void naming(int32_t peer, Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    throw PeerError(peer, words_of(error));
  }
}

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

Mesh::Mesh(const c10::intrusive_ptr<c10d::Store>& store, int32_t rank, int32_t world_size,
           const std::string& ip, double timeout_seconds) {
  auto options = c10d::ProcessGroupGloo::Options::create(
      std::chrono::ceil<milliseconds>(std::chrono::duration<double>(timeout_seconds)));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(ip));
  options->threads = 1;  // more threads serve Gloo's collectives only
  group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world_size, options);
}

Mesh::~Mesh() = default;

Mesh::Exchange Mesh::start(uint32_t number, std::span<const Piece> receives, std::span<const Piece> sends) {
  const int tag = static_cast<int>(number & 0x7fffffffu);
  while (retired_.size() > kRetired) retired_.pop_front();
  std::vector<Message> messages;
  const auto begin = [&](std::span<const Piece> pieces, auto&& call) {
    for (const Piece& piece : pieces) {
      if (piece.bytes == 0) continue;
      std::vector<at::Tensor> memory = bytes_of(piece);
      naming(piece.peer, [&] { messages.push_back({piece.peer, call(memory, piece.peer)}); });
    }
  };
  begin(receives, [&](auto& memory, int peer) { return group_->recv(memory, peer, tag); });
  begin(sends, [&](auto& memory, int peer) { return group_->send(memory, peer, tag); });
  return {*this, std::move(messages)};
}

void Mesh::interrupt() noexcept {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  for (const auto& work : active_) work->abort();
}

void Mesh::disconnect() {
  retired_.clear();
  group_.reset();
}

Mesh::Exchange::Exchange(Mesh& mesh, std::vector<Message> messages)
    : mesh_(&mesh), messages_(std::move(messages)) {
  const std::lock_guard lock(mesh_->mutex_);
  for (const Message& message : messages_) {
    mesh_->active_.push_back(message.work);
    if (mesh_->interrupted_) message.work->abort();
  }
}

Mesh::Exchange::Exchange(Exchange&& other) noexcept
    : mesh_(std::exchange(other.mesh_, nullptr)), messages_(std::move(other.messages_)) {}

Mesh::Exchange& Mesh::Exchange::operator=(Exchange&& other) noexcept {
  forget();
  mesh_ = std::exchange(other.mesh_, nullptr);
  messages_ = std::move(other.messages_);
  return *this;
}

void Mesh::Exchange::wait() {
  for (const Message& message : messages_) {
    bool done = false;
    naming(message.peer, [&] { done = message.work->wait(kForever); });
    if (!done) fail("interrupted");
  }
  if (mesh_ != nullptr)
    for (const Message& message : messages_) mesh_->retired_.push_back(message.work);
  forget();
}

void Mesh::Exchange::forget() noexcept {
  if (mesh_ == nullptr) return;
  {
    const std::lock_guard lock(mesh_->mutex_);
    std::erase_if(mesh_->active_, [&](const auto& active) {
      return std::ranges::any_of(messages_, [&](const Message& message) { return message.work == active; });
    });
  }
  mesh_ = nullptr;
  messages_.clear();
}

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
