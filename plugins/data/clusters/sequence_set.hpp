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

}  // namespace pipeline::clusters
