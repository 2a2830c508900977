// The tokens that a model of proteins sees.
#pragma once

#include <cstdint>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

constexpr int64_t kMaskToken = kUnknown + 1;  // after the twenty amino acids and the unknown one
constexpr int64_t kTokenCount = kMaskToken + 1;

}  // namespace pipeline::protein
