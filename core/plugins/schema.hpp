#pragma once

#include <vector>

#include "pipeline.h"

namespace pipeline::plugins {

// The options that a plugin publishes, copied to the size that this program knows. Throws Error for a schema
// that contradicts itself: the author's mistake, which would otherwise show up as a user's.
std::vector<pl_option> copy_options(const pl_plugin& table);

}  // namespace pipeline::plugins
