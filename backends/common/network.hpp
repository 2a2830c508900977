// What a rank has to know about this host's network.
#pragma once

#include <cstdint>
#include <string>

namespace pipeline::backends {

// One of this host's addresses and the interface that has it. `name` is empty where it cannot be told.
struct LocalAddress {
  std::string ip;
  std::string name;
  bool loopback = false;
};

// The address that packets to `host` leave from; throws where `host` is unknown or out of reach.
LocalAddress address_towards(const std::string& host, uint32_t port);
// The address of interface `name`; throws with a list of those that there are.
LocalAddress address_of_interface(const std::string& name);
// Whether `host` is an address of this host; false where it cannot be resolved.
bool is_this_host(const std::string& host);
std::string host_name();

// The port of a listening socket of this process that nobody serves: the kernel answers for it, at all of the
// host's addresses, as long as the process lives, stopped or not. [any-thread]
uint32_t beacon_port();
// False only where the host says that nobody listens there: the process is gone.
bool beacon_answers(const std::string& ip, uint32_t port);

}  // namespace pipeline::backends
