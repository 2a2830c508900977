#pragma once

#include <cstdint>
#include <vector>

#include "pipeline.h"

namespace pipeline::plugins {

// The options that a plugin publishes, copied to the size that this program knows. Throws Error for a schema
// that contradicts itself: the author's mistake, which would otherwise show up as a user's.
std::vector<pl_option> copy_options(const pl_plugin& table);

// "integer", "list of strings", ...; empty for an unknown type.
const char* option_type_name(std::uint32_t type);

}  // namespace pipeline::plugins
