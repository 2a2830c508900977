#pragma once

#include <cstdint>
#include <string>

namespace pipeline {

// Who listens at a port of this host, "process 1234 (python train.py)", as far as /proc shows it; otherwise
// empty.
std::string port_owner(uint16_t port);

}  // namespace pipeline
