#pragma once

#include <vector>

#include "pipeline.h"

namespace pipeline::plugins {

// Returns the options that a plugin publishes, copied to the struct size that this program knows. Throws
// Error for a schema that contradicts itself: the author's mistake, which would otherwise look like the
// user's.
std::vector<pl_option> copy_options(const pl_plugin& table);

}  // namespace pipeline::plugins
