#pragma once

#include <cstdint>
#include <span>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

// What a chain is, wherever its file lies and whatever it and its residues are called: a hash of its amino acids and coordinates.
uint64_t content_key(std::span<const Residue> chain);
// Of chains together: that of the chain where there is one.
uint64_t content_key(std::span<const uint64_t> chains);

}  // namespace pipeline::protein
