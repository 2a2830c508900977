#include "plugins/tasks/protein/task/content_key.hpp"

#include <string>

#include "plugins/tasks/common/files/bytes_of.hpp"
#include "plugins/tasks/common/files/hash128.hpp"

namespace pipeline::protein {

uint64_t content_key(std::span<const Residue> chain) {
  files::Hasher128 hasher;
  for (const Residue& residue : chain) {
    hasher.update(files::bytes_of(residue.amino_acid));
    hasher.update(files::bytes_of(residue.n)).update(files::bytes_of(residue.ca)).update(files::bytes_of(residue.c));
  }
  return hasher.finish().low;
}

uint64_t content_key(std::span<const uint64_t> chains) {
  if (chains.size() == 1) return chains.front();
  files::Hasher128 hasher;
  for (const uint64_t chain : chains) hasher.update(files::bytes_of(chain));
  return hasher.finish().low;
}

}  // namespace pipeline::protein
