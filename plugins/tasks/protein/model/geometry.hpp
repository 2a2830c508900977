// What the model sees of a structure, all of it unchanged by rotation and translation once two residues are compared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

// A residue's frame: the rows of a rotation, then CA in ångström. The rows are orthonormal: towards C, towards N as far as that is
// not towards C, and their cross product (Jumper et al. 2021, AlphaFold 2, supplement, algorithm 21). A point p is at R (p - CA) in it.
constexpr int64_t kFrameSize = 12;

// Per residue: whether CA and the frame are known; sine and cosine of phi, psi and omega; distances of CA to those 2, 3 and 4 residues
// before and after in units of 10 Å; how many CA lie within 8, 10, 12 and 14 Å, and within 12 Å on the side chain's side of CA and on
// the other (half-sphere exposure: Hamelryck 2005), each as a smooth count in units of 10. Zero where unknown.
constexpr int64_t kLocalFeatures = 20;

struct Geometry {
  std::vector<float> frames;  // (n, kFrameSize)
  std::vector<float> local;   // (n, kLocalFeatures)
  std::vector<uint8_t> flags; // (n) Residue::Flags
};

// chains[i]: the number of the chain of residue i. hidden[i] != 0: as if the residue had no coordinates; may be empty.
Geometry describe_geometry(std::span<const Residue> residues, std::span<const int64_t> chains, std::span<const uint8_t> hidden);

}  // namespace pipeline::protein
