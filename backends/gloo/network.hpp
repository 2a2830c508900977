// What a rank has to know about this host's network.
#pragma once

#include <cstdint>
#include <string>

namespace pipeline::backends::gloo {

// One of this host's addresses and the interface that has it. `name` is empty where it cannot be told.
struct LocalAddress {
  std::string ip;
  std::string name;
  bool loopback = false;
};

// The address that packets to `host` leave from; throws where `host` is unknown or out of reach.
LocalAddress address_towards(const std::string& host);
// The address of interface `name`; throws with a list of those that there are.
LocalAddress address_of_interface(const std::string& name);
std::string host_name();

}  // namespace pipeline::backends::gloo
