// Sockets of the operating system: owned, opened, and asked whether the other end's machine is still there.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/base/world.hpp"

namespace pipeline {

using Socket = Descriptor;

// What is written `in` comes `out`.
struct Pipe {
  Pipe();  // throws Error
  Descriptor out, in;
};

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  bool is_loopback() const;
  uint16_t port() const;
};

std::string to_text(const Address& address);                // "10.0.0.1:29500", "[::1]:29500"
std::string to_text(std::string_view host, uint16_t port);  // for a host's name

// The inverse of to_text(): "127.0.0.1:8080", "[::1]:8080", "node-1:8080". nullopt: it has no such form.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
std::optional<HostPort> split_address(std::string_view text);

// All addresses of a name. None: `problem` says why, and `for_good` whether asking again is of no use.
struct Resolved {
  std::vector<Address> addresses;
  std::string problem;
  bool for_good = false;
};
Resolved resolve(const std::string& name, uint16_t port);

// True for the number of an address that this host does not have; a name is not looked up.
bool is_elsewhere(const std::string& host);

// Where rank 0 waits for the others: world.listen_socket, or the first free one of world's ports. Throws
// Error that says who has the port.
Socket listen_for(const World& world);

// A socket that listens and does not block, or none and errno.
Socket listen_at(const Address& address);
// What an errno of listen_at() means for a port, and who has it if it is in use.
std::string why_not_listening(int problem, uint16_t port);

// A connection, or none and errno. The socket blocks and does not collect small writes.
Socket connect_to(const Address& address, std::chrono::milliseconds limit);

// What every connection of ours is set to.
void prepare(int fd);

// Tells a machine that has vanished (power, cable, firewall) from a process that does not run: a living
// kernel acknowledges what is sent to its process, also when that is stopped and its buffers are full. Both
// ends send about once a second, so there is always something.
class Reachability {
 public:
  // To be asked about once a second, before anything new is sent; `now` by a clock that stands still while
  // this process does.
  bool lost(int fd, std::chrono::duration<double> now);

  static constexpr std::chrono::duration<double> kPatience{8};

 private:
  std::chrono::duration<double> answered_{0};
  bool first_ = true;
};

std::string host_name();

}  // namespace pipeline
