#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

// What a chain is, wherever its file lies and whatever it and its residues are called: a hash of its amino
// acids and coordinates.
uint64_t content_key(std::span<const Residue> chain);
// Of chains together: that of the chain where there is one.
uint64_t content_key(std::span<const uint64_t> chains);

using ContentKeys = std::set<uint64_t>;
bool any_of(std::span<const uint64_t> keys, const ContentKeys& set);

// The chains that weights were trained with. It goes with them from run to run, so that no evaluation takes
// what they may know for something new. All of a training split counts from the first step on.
struct Learnt {
  ContentKeys training, validation;  // validation: what the best checkpoint was chosen by

  void add(const Learnt& other);
  bool operator==(const Learnt&) const = default;
};

}  // namespace pipeline::protein
