#include "plugins/tasks/protein/task/learnt.hpp"

#include <algorithm>

#include "plugins/tasks/common/files/bytes_of.hpp"
#include "plugins/tasks/common/files/hash128.hpp"

namespace pipeline::protein {

using files::bytes_of;

uint64_t content_key(std::span<const Residue> chain) {
  files::Hasher128 hasher;
  for (const Residue& residue : chain) {
    hasher.update(bytes_of(residue.amino_acid));
    hasher.update(bytes_of(residue.n)).update(bytes_of(residue.ca)).update(bytes_of(residue.c));
  }
  return hasher.finish().low;
}

uint64_t content_key(std::span<const uint64_t> chains) {
  if (chains.size() == 1) return chains.front();
  files::Hasher128 hasher;
  for (const uint64_t chain : chains) hasher.update(bytes_of(chain));
  return hasher.finish().low;
}

bool any_of(std::span<const uint64_t> keys, const ContentKeys& set) {
  return std::ranges::any_of(keys, [&](uint64_t key) { return set.contains(key); });
}

void Learnt::add(const Learnt& other) {
  training.insert(other.training.begin(), other.training.end());
  validation.insert(other.validation.begin(), other.validation.end());
}

}  // namespace pipeline::protein
