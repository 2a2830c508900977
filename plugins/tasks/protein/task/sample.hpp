// A sample: the residues of a chain, or of all chains of a structure, and parts of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

struct Sample {
  std::vector<Residue> residues;
  std::vector<int64_t> chains;  // of each residue: the number of its chain
  std::vector<int64_t>
      copy_of;  // the residue that stands for it and its copies in other chains: find_copies()

  std::vector<uint8_t> amino_acids() const;
  // These residues alone, in this order.
  Sample part(std::span<const int64_t> rows) const;
};

Sample make_sample(std::span<const std::span<const Residue>> chains);

// Which residues of `sample` are left when it may have no more than `most`; ascending. A function of its
// arguments.
std::vector<int64_t> crop_contiguous(int64_t residues, int64_t most, uint64_t seed);
// Those nearest to a random residue, by CA. Residues whose place is not known are taken last.
std::vector<int64_t> crop_spatial(const Sample& sample, int64_t most, uint64_t seed);

// Adds N(0, deviation) ångström to every coordinate.
void add_noise(std::span<Residue> residues, double deviation, uint64_t seed);

}  // namespace pipeline::protein
