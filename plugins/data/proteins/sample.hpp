// A sample: the residues of a chain, or of all chains of a structure, and parts of it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "core/base/hash.hpp"
#include "plugins/data/residues/residue.hpp"

namespace pipeline::proteins {

using ResiduePairs = std::vector<std::pair<uint32_t, uint32_t>>;  // places in a and b, ascending in both

// Which residue of one chain is which of another that is nearly the same: the pairing with most identical
// residues, where what is passed over between two pairs costs the same whatever its length, and nothing at
// the ends; a loop that was not seen says nothing. Between equally good pairings the residues' numbers
// decide. Chains of more than some 10,000 residues are paired by their numbers alone.
ResiduePairs pair_residues(std::span<const residues::Residue> a, std::span<const residues::Residue> b);

// For each residue of the chains, laid end to end, the number of the one that stands for it and its copies:
// the first of them that is known, or the first if none is; its own number where there are no copies. Chains
// are copies of each other if they are equal, or if their best local alignment has at least 90% identical
// residues, and 10 of them: mutants, and copies of which other ends or loops were seen.
std::vector<int64_t> find_copies(std::span<const std::span<const residues::Residue>> chains);

// Random numbers that are the same on every machine: splitmix64 (Steele et al. 2014), and what follows from
// it by arithmetic.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mix(std::exchange(state_, state_ + 0x9e3779b97f4a7c15ULL)); }
  // 0 .. count - 1, count > 0.
  uint64_t below(uint64_t count) { return static_cast<uint64_t>((static_cast<Wide>(next()) * count) >> 64); }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal() {                                                         // Box and Muller 1958
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  __extension__ using Wide = unsigned __int128;

  uint64_t state_;
};

// How often each amino acid occurs, in the order of kAminoAcids; they add up to one.
using Frequencies = std::array<double, residues::kAminoAcidCount>;

struct Sample {
  std::vector<uint8_t> codes;   // of each residue: as alphabet.hpp numbers them
  std::vector<int64_t> chains;  // of each residue: the number of its chain
  std::vector<int64_t>
      copy_of;  // the residue that stands for it and its copies in other chains: find_copies()
  // What a structure has of each residue beside the code. Empty for a sequence, whose residues are numbered
  // from 1 and have no coordinates.
  std::vector<residues::Residue> backbone = {};

  size_t size() const { return codes.size(); }
  bool is_known(size_t i) const { return codes[i] < residues::kAminoAcidCount; }
  int32_t number(size_t i) const { return has_backbone() ? backbone[i].number : position(i) + 1; }
  char insertion(size_t i) const { return has_backbone() ? backbone[i].insertion : ' '; }
  int32_t position(size_t i) const { return has_backbone() ? backbone[i].position : static_cast<int32_t>(i); }
  bool has_ca(size_t i) const { return has_backbone() && backbone[i].has_ca(); }
  bool has_frame(size_t i) const { return has_backbone() && backbone[i].has_frame(); }
  // A sample of these residues alone, in this order; those of a sequence are numbered anew.
  Sample part(std::span<const int64_t> rows) const;

 private:
  bool has_backbone() const { return !backbone.empty(); }
};

// Chains of a structure, and a sequence.
Sample make_sample(std::span<const std::span<const residues::Residue>> chains);
Sample make_sample(std::span<const uint8_t> codes);

// Which of a sample's `residues` are left when it may have no more than `most`: a stretch of them, ascending.
// A function of the arguments.
std::vector<int64_t> crop_contiguous(int64_t residues, int64_t most, uint64_t seed);
// Those nearest to a random residue, by CA, ascending. Residues whose place is not known are taken last.
std::vector<int64_t> crop_spatial(const Sample& sample, int64_t most, uint64_t seed);

// Adds N(0, deviation) ångström to every coordinate.
void add_noise(std::span<residues::Residue> residues, double deviation, uint64_t seed);

}  // namespace pipeline::proteins
