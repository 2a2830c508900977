// Chains with made-up sequences, numbered from 1 and far apart.
#pragma once

#include <span>
#include <vector>

#include "plugins/data/proteins/sample.hpp"

namespace pipeline::protein {

inline void renumber(std::vector<Residue>& chain) {
  for (size_t i = 0; i < chain.size(); ++i)
    chain[i].number = static_cast<int32_t>(i) + 1, chain[i].position = static_cast<int32_t>(i);
}

inline std::vector<Residue> made_up_chain(size_t length, uint64_t seed) {
  std::vector<Residue> chain(length);
  Random random(seed);
  for (size_t i = 0; i < length; ++i) {
    chain[i].amino_acid = static_cast<uint8_t>(random.below(kAminoAcidCount));
    chain[i].flags = Residue::kHasCa;
    chain[i].ca = {static_cast<float>(i) * 3.8f, static_cast<float>(seed), 0};
  }
  renumber(chain);
  return chain;
}

inline std::vector<Residue> part_of(const std::vector<Residue>& chain, size_t first, size_t count) {
  return {chain.begin() + static_cast<ptrdiff_t>(first),
          chain.begin() + static_cast<ptrdiff_t>(std::min(chain.size(), first + count))};
}

inline std::vector<Residue> without(std::vector<Residue> chain, size_t first, size_t count) {
  chain.erase(chain.begin() + static_cast<ptrdiff_t>(first),
              chain.begin() + static_cast<ptrdiff_t>(std::min(chain.size(), first + count)));
  return chain;
}

inline std::vector<std::span<const Residue>> spans_of(const std::vector<std::vector<Residue>>& chains) {
  return {chains.begin(), chains.end()};
}
inline std::vector<int64_t> copies_of(const std::vector<std::vector<Residue>>& chains) {
  return find_copies(spans_of(chains));
}
inline Sample sample_of(const std::vector<std::vector<Residue>>& chains) {
  return make_sample(spans_of(chains));
}

}  // namespace pipeline::protein
