// Chains with made-up sequences, numbered from 1 and far apart.
#pragma once

#include <span>
#include <vector>

#include "plugins/data/proteins/sample.hpp"
#include "plugins/data/residues/residue.hpp"

namespace pipeline::proteins {

inline void renumber(std::vector<residues::Residue>& chain) {
  for (size_t i = 0; i < chain.size(); ++i)
    chain[i].number = static_cast<int32_t>(i) + 1, chain[i].position = static_cast<int32_t>(i);
}

inline std::vector<residues::Residue> made_up_chain(size_t length, uint64_t seed) {
  std::vector<residues::Residue> chain(length);
  Random random(seed);
  for (size_t i = 0; i < length; ++i) {
    chain[i].amino_acid = static_cast<uint8_t>(random.below(residues::kAminoAcidCount));
    chain[i].flags = residues::Residue::kHasCa;
    chain[i].ca = {static_cast<float>(i) * 3.8f, static_cast<float>(seed), 0};
  }
  renumber(chain);
  return chain;
}

inline std::vector<residues::Residue> part_of(const std::vector<residues::Residue>& chain, size_t first,
                                              size_t count) {
  return {chain.begin() + static_cast<ptrdiff_t>(first),
          chain.begin() + static_cast<ptrdiff_t>(std::min(chain.size(), first + count))};
}

inline std::vector<residues::Residue> without(std::vector<residues::Residue> chain, size_t first,
                                              size_t count) {
  chain.erase(chain.begin() + static_cast<ptrdiff_t>(first),
              chain.begin() + static_cast<ptrdiff_t>(std::min(chain.size(), first + count)));
  return chain;
}

inline std::vector<std::span<const residues::Residue>> spans_of(
    const std::vector<std::vector<residues::Residue>>& chains) {
  return {chains.begin(), chains.end()};
}
inline std::vector<int64_t> copies_of(const std::vector<std::vector<residues::Residue>>& chains) {
  return find_copies(spans_of(chains));
}
inline Sample sample_of(const std::vector<std::vector<residues::Residue>>& chains) {
  return make_sample(spans_of(chains));
}

}  // namespace pipeline::proteins
