// What the model sees of a structure, all of it unchanged by rotation and translation once two residues are
// compared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/data/residues/residue.hpp"

namespace pipeline::protein {

// A residue's frame: the rows of a rotation, then CA in ångström. The rows are orthonormal: towards C,
// towards N as far as that is not towards C, and their cross product (Jumper et al. 2021, AlphaFold 2,
// supplement, algorithm 21). A point p is at R (p - CA) in it.
constexpr int64_t kFrameSize = 12;

// Per residue: whether CA and the frame are known; sine and cosine of phi, psi and omega; distances of CA to
// those 2, 3 and 4 residues before and after in units of 10 Å; how many CA lie within 8, 10, 12 and 14 Å, and
// within 12 Å on the side chain's side of CA and on the other (half-sphere exposure: Hamelryck 2005), each as
// a smooth count in units of 10. Zero where unknown.
constexpr int64_t kLocalFeatures = 20;

// The geometry of a structure whose residues and chains stay where they are while the object lives. What is
// near a residue is looked for when that residue is first asked for, so that a part of a long structure costs
// what the part is. One thread at a time.
class Geometry {
 public:
  // chains[i]: the number of the chain of residue i. hidden[i] != 0: as if the residue had no coordinates;
  // may be empty.
  Geometry(std::span<const residues::Residue> residues, std::span<const int64_t> chains,
           std::span<const uint8_t> hidden);

  std::span<const float, kFrameSize> frame(size_t i) const;
  std::span<const float, kLocalFeatures> local(size_t i);
  uint8_t flags(size_t i) const { return flags_[i]; }  // Residue::Flags

 private:
  bool has_ca(size_t i) const { return (flags_[i] & residues::Residue::kHasCa) != 0; }
  bool has_frame(size_t i) const { return (flags_[i] & residues::Residue::kHasFrame) != 0; }
  bool follows(size_t i, int64_t by) const;
  void torsions(size_t i, float* out) const;
  void distances(size_t i, float* out) const;
  void counts(size_t i, float* within, float* halves) const;

  std::span<const residues::Residue> residues_;
  std::span<const int64_t> chains_;
  std::vector<float> frames_, local_;       // (n, kFrameSize), (n, kLocalFeatures)
  std::vector<uint8_t> flags_, described_;  // (n)
};

}  // namespace pipeline::protein
