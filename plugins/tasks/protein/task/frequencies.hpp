#pragma once

#include <array>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

// How often each amino acid occurs, in the order of kAminoAcids; they add up to one.
using Frequencies = std::array<double, kAminoAcidCount>;

}  // namespace pipeline::protein
