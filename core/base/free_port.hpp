#pragma once

#include <cstdint>

namespace pipeline {

// A TCP port that nobody uses at the moment, for a backend's rendezvous on this host. Throws Error.
std::uint16_t free_port();

}  // namespace pipeline
