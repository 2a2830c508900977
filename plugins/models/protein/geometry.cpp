#include "plugins/models/protein/geometry.hpp"

#include <array>
#include <cmath>
#include <cstddef>

#include "plugins/data/residues/residue.hpp"

namespace pipeline::protein {
namespace {

residues::Vec3 operator*(const residues::Vec3& a, float s) { return {a.x * s, a.y * s, a.z * s}; }
float length(const residues::Vec3& a) { return std::sqrt(dot(a, a)); }
residues::Vec3 unit(const residues::Vec3& a) { return a * (1 / std::max(length(a), 1e-6f)); }

void put(float* out, const residues::Vec3& v) { out[0] = v.x, out[1] = v.y, out[2] = v.z; }

// False where the three atoms are on a line, and there is no frame.
bool write_frame(const residues::Residue& residue, float* out) {
  const residues::Vec3 e1 = unit(residue.c - residue.ca), to_n = residue.n - residue.ca;
  const residues::Vec3 across = to_n - e1 * dot(e1, to_n);
  if (length(across) < 1e-3f) return false;
  const residues::Vec3 e2 = unit(across);
  put(out, e1);
  put(out + 3, e2);
  put(out + 6, cross(e1, e2));
  return true;
}

// The torsion a-b-c-d as (sine, cosine).
std::array<float, 2> torsion(const residues::Vec3& a, const residues::Vec3& b, const residues::Vec3& c,
                             const residues::Vec3& d) {
  const residues::Vec3 axis = b - c, n1 = cross(a - b, axis), n2 = cross(d - c, axis);
  const residues::Vec3 u = unit(axis);
  const float y = dot(cross(n2, n1), u), x = dot(n1, n2), size = std::sqrt(x * x + y * y);
  if (size < 1e-6f) return {0, 0};
  return {y / size, x / size};
}

// Where CB would be, from the ideal geometry of alanine (Dauparas et al. 2022, ProteinMPNN): a direction from
// CA.
residues::Vec3 side_chain_direction(const residues::Residue& r) {
  const residues::Vec3 b = r.ca - r.n, c = r.c - r.ca, a = cross(b, c);
  return {-0.58273431f * a.x + 0.56802827f * b.x - 0.54067466f * c.x,
          -0.58273431f * a.y + 0.56802827f * b.y - 0.54067466f * c.y,
          -0.58273431f * a.z + 0.56802827f * b.z - 0.54067466f * c.z};
}

// 1 well inside `radius`, 0 well outside.
float inside(float distance, float radius) { return 1 / (1 + std::exp(distance - radius)); }

constexpr std::array<float, 4> kRadii{8, 10, 12, 14};
constexpr float kFarthest = 24;  // beyond it no count changes by more than 5e-5
constexpr float kHalfSphere = 12;
constexpr size_t kTorsions = 2, kDistances = 8, kCounts = 14, kHalves = 18;
static_assert(kHalves + 2 == kLocalFeatures && kCounts + kRadii.size() == kHalves);

}  // namespace

Geometry::Geometry(std::span<const residues::Residue> residues, std::span<const int64_t> chains,
                   std::span<const uint8_t> hidden)
    : residues_(residues),
      chains_(chains),
      frames_(residues.size() * kFrameSize),
      local_(residues.size() * kLocalFeatures),
      flags_(residues.size()),
      described_(residues.size()) {
  for (size_t i = 0; i < residues.size(); ++i) {
    const residues::Residue& residue = residues[i];
    if ((!hidden.empty() && hidden[i] != 0) || !residue.has_ca()) continue;
    float* const frame = &frames_[i * kFrameSize];
    flags_[i] = residues::Residue::kHasCa;
    put(frame + 9, residue.ca);
    if (residue.has_frame() && write_frame(residue, frame)) flags_[i] |= residues::Residue::kHasFrame;
  }
}

std::span<const float, kFrameSize> Geometry::frame(size_t i) const {
  return std::span<const float, kFrameSize>(&frames_[i * kFrameSize], kFrameSize);
}

std::span<const float, kLocalFeatures> Geometry::local(size_t i) {
  float* const out = &local_[i * kLocalFeatures];
  if (described_[i] == 0 && has_ca(i)) {
    out[0] = 1;
    out[1] = has_frame(i) ? 1.0f : 0.0f;
    torsions(i, out + kTorsions);
    distances(i, out + kDistances);
    counts(i, out + kCounts, out + kHalves);
  }
  described_[i] = 1;
  return std::span<const float, kLocalFeatures>(out, kLocalFeatures);
}

// Residue `i + by` of the same chain, if none is missing between the two.
bool Geometry::follows(size_t i, int64_t by) const {
  const int64_t j = static_cast<int64_t>(i) + by;
  if (j < 0 || j >= static_cast<int64_t>(residues_.size())) return false;
  const auto at = static_cast<size_t>(j);
  return chains_[at] == chains_[i] && residues_[at].position - residues_[i].position == by;
}

void Geometry::torsions(size_t i, float* out) const {
  if (!has_frame(i)) return;
  const residues::Residue& r = residues_[i];
  if (follows(i, -1) && has_frame(i - 1)) {
    const residues::Residue& before = residues_[i - 1];
    const auto phi = torsion(before.c, r.n, r.ca, r.c), omega = torsion(before.ca, before.c, r.n, r.ca);
    out[0] = phi[0], out[1] = phi[1], out[4] = omega[0], out[5] = omega[1];
  }
  if (follows(i, 1) && has_frame(i + 1)) {
    const auto psi = torsion(r.n, r.ca, r.c, residues_[i + 1].n);
    out[2] = psi[0], out[3] = psi[1];
  }
}

void Geometry::distances(size_t i, float* out) const {
  for (const int64_t by : {2, 3, 4, -2, -3, -4}) {
    const auto j = static_cast<size_t>(static_cast<int64_t>(i) + by);
    if (follows(i, by) && has_ca(j)) *out = length(residues_[j].ca - residues_[i].ca) / 10;
    ++out;
  }
}

void Geometry::counts(size_t i, float* within, float* halves) const {
  const residues::Vec3 side = has_frame(i) ? unit(side_chain_direction(residues_[i])) : residues::Vec3{};
  for (size_t j = 0; j < residues_.size(); ++j) {
    if (j == i || !has_ca(j)) continue;
    const residues::Vec3 to = residues_[j].ca - residues_[i].ca;
    const float squared = dot(to, to);
    if (squared > kFarthest * kFarthest) continue;
    const float distance = std::sqrt(squared);
    for (size_t k = 0; k < kRadii.size(); ++k) within[k] += inside(distance, kRadii[k]) / 10;
    if (!has_frame(i)) continue;
    const float near = inside(distance, kHalfSphere) / 10, up = 1 / (1 + std::exp(-2 * dot(to, side)));
    halves[0] += near * up;
    halves[1] += near * (1 - up);
  }
}

}  // namespace pipeline::protein
