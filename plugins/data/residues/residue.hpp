// What is kept of a residue: its amino acid and its backbone.
#pragma once

#include <cstdint>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::residues {

struct Vec3 {
  float x = 0, y = 0, z = 0;  // ångström
};
inline Vec3 operator-(const Vec3& a, const Vec3& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline float dot(const Vec3& a, const Vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// A residue as it lies in the cache: no pointers, no padding.
struct Residue {
  enum Flags : uint8_t { kHasCa = 1, kHasFrame = 2 };  // kHasFrame: N, CA and C are all there

  uint8_t amino_acid = kUnknown;
  uint8_t flags = 0;
  char insertion = ' ';  // insertion code
  uint8_t reserved = 0;
  int32_t number = 0;    // as in the file; where it has none, one more than the residue before
  int32_t position = 0;  // along the chain from 0: one more than the residue before, and more where residues
                         // are missing in between
  Vec3 n, ca, c;         // zero where missing

  bool has_ca() const { return (flags & kHasCa) != 0; }
  bool has_frame() const { return (flags & kHasFrame) != 0; }
};
static_assert(sizeof(Residue) == 48);

}  // namespace pipeline::residues
