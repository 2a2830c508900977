#pragma once

#include <cstdint>
#include <string_view>

namespace pipeline {

// The only source of randomness of a run: a pure function of its arguments, 64 well-mixed bits. Streams keep
// uses apart
// ("shuffle", "dropout", "initialize"); a, b, c say which epoch, step, parameter. Part of a run's results:
// its values never change.
uint64_t derive_seed(uint64_t seed, std::string_view stream, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0);

}  // namespace pipeline
