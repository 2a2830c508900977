#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "plugins/data/clusters/clusters.hpp"
#include "plugins/data/clusters/local_alignment.hpp"

namespace pipeline::clusters {

// Throws files::DataError for options out of range.
void check_options(const ClusterOptions& options);

// Sequences as numbers, equal ones once.
struct SequenceSet {
  std::vector<Letters> distinct;    // in order of appearance
  std::vector<uint32_t> number_of;  // each sequence's place in `distinct`

  // Throws files::DataError for a sequence longer than kMaxAlignedLength.
  explicit SequenceSet(std::span<const std::string_view> sequences);
  // The places in `distinct`, the shortest sequence first: neighbours then are of similar length.
  std::vector<uint32_t> by_length() const;
};

// For each sequence that `is_short` marks, the first of all sequences that is longer and contains it residue
// by residue; else nothing. One, not all: four residues are found in many unrelated proteins, which must not
// be joined by them. Sequences without residues are in none.
std::vector<std::optional<uint32_t>> find_containing(const std::vector<Letters>& sequences,
                                                     const std::vector<bool>& is_short);

// Pairs of sequences that are worth aligning: they have two seeds in common whose places fit one alignment
// with few gaps. A seed is four amino acids at the places marked 1 in 110101 (a spaced seed: hits at
// neighbouring places are more independent than those of four in a row; Ma, Tromp and Li 2002, Bioinformatics
// 18:440); the two hits lie on diagonals that differ by at most 8.
//
// Measured on pairs made by random substitutions and 3% of gaps, share that is found at 50, 45, 40 and 35%
// identity: with 100 residues 0.92, 0.78, 0.55, 0.34; with 200 1.00, 0.97, 0.89, 0.68; with 300 1.00, 1.00,
// 0.97, 0.85. In families it matters less, since one pair found on the way joins two members. Of random pairs
// of 250 residues 1.7% are worth aligning. Where relatives below 40% matter, the exact way
// (ClusterOptions::exact_up_to) is the sure one.
class Prefilter {
 public:
  // The sequences stay where they are while the object lives.
  explicit Prefilter(const std::vector<Letters>& sequences);

  // The sequences before `query` that are worth aligning with it, ascending. Of a seed that is in many
  // sequences only the first kMaxListed are looked at: the members of a large family all meet its first
  // members, and time stays linear. [any-thread]
  std::vector<uint32_t> candidates(uint32_t query) const;

  static constexpr size_t kMaxListed = 1000;

 private:
  struct Hit {
    uint32_t sequence, position;
  };

  const std::vector<Letters>& sequences_;
  std::vector<uint64_t> begin_;  // where each seed's hits begin; one more than there are seeds
  std::vector<Hit> hits_;        // by seed, then by sequence and position
};

}  // namespace pipeline::clusters
