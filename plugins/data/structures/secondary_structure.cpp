#include "plugins/data/structures/secondary_structure.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace pipeline::structures {
namespace {

residues::Vec3 operator+(const residues::Vec3& a, const residues::Vec3& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
residues::Vec3 operator*(float factor, const residues::Vec3& v) {
  return {factor * v.x, factor * v.y, factor * v.z};
}
float norm_of(const residues::Vec3& v) { return std::sqrt(dot(v, v)); }
residues::Vec3 unit(const residues::Vec3& v) { return (1 / std::max(norm_of(v), 1e-6f)) * v; }

// Whether two residues are neighbours: a peptide bond's length, and some more for poor structures.
bool are_bonded(const residues::Residue& before, const residues::Residue& after) {
  constexpr float kLongestBond = 2.5f;
  return before.has_frame() && after.has_frame() && norm_of(after.n - before.c) < kLongestBond;
}

// The atoms of a residue that hydrogen bonds are between.
struct Peptide {
  std::optional<residues::Vec3> o,
      h;  // of this residue's CO and NH; none: its neighbour is missing, or it is proline
};

std::vector<Peptide> peptides_of(std::span<const residues::Residue> chain) {
  constexpr float kCarbonyl = 1.23f, kAmide = 1.01f;  // Å
  constexpr size_t kProline = residues::kAminoAcids.find('P');
  std::vector<Peptide> peptides(chain.size());
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    const residues::Residue &here = chain[i], &next = chain[i + 1];
    if (!are_bonded(here, next)) continue;
    // O lies in the plane of CA, C and the next N, between the directions away from CA and from N.
    peptides[i].o = here.c + kCarbonyl * unit(unit(here.c - here.ca) + unit(here.c - next.n));
    if (next.amino_acid != kProline) peptides[i + 1].h = next.n + kAmide * unit(here.c - *peptides[i].o);
  }
  return peptides;
}

// bond(i, j): from the CO of residue i to the NH of residue j.
class Bonds {
 public:
  explicit Bonds(std::span<const residues::Residue> chain) : size_(static_cast<int64_t>(chain.size())) {
    constexpr float kFarthestCa = 9;  // Å between CA
    const std::vector<Peptide> peptides = peptides_of(chain);
    accepted_.resize(chain.size());
    for (size_t i = 0; i < chain.size(); ++i)
      for (size_t j = 0; j < chain.size(); ++j) {
        if (i == j || i + 1 == j || !peptides[i].o || !peptides[j].h) continue;
        if (norm_of(chain[i].ca - chain[j].ca) > kFarthestCa) continue;
        if (energy(chain[i].c, *peptides[i].o, chain[j].n, *peptides[j].h) < kBond)
          accepted_[i].push_back(static_cast<int64_t>(j));
      }
  }

  bool operator()(int64_t i, int64_t j) const {
    if (i < 0 || j < 0 || i >= size_ || j >= size_) return false;
    const auto& all = accepted_[static_cast<size_t>(i)];
    return std::ranges::binary_search(all, j);
  }

 private:
  static constexpr float kBond = -0.5f;  // kcal/mol

  static float energy(const residues::Vec3& c, const residues::Vec3& o, const residues::Vec3& n,
                      const residues::Vec3& h) {
    constexpr float kStrength = 0.42f * 0.20f * 332;  // charges of CO and NH; kcal/mol Å
    const auto inverse = [](const residues::Vec3& a, const residues::Vec3& b) {
      return 1 / std::max(norm_of(a - b), 0.5f);
    };
    return kStrength * (inverse(o, n) + inverse(c, h) - inverse(o, h) - inverse(c, n));
  }

  int64_t size_;
  std::vector<std::vector<int64_t>> accepted_;  // by residue of the CO
};

enum class Bridge : uint8_t { kNone, kParallel, kAntiparallel };

Bridge bridge_of(const Bonds& bond, int64_t i, int64_t j) {
  if ((bond(i - 1, j) && bond(j, i + 1)) || (bond(j - 1, i) && bond(i, j + 1))) return Bridge::kParallel;
  if ((bond(i, j) && bond(j, i)) || (bond(i - 1, j + 1) && bond(j - 1, i + 1))) return Bridge::kAntiparallel;
  return Bridge::kNone;
}

// Bridges of one kind between neighbours: residues first_i .. last_i with first_j .. last_j.
struct Ladder {
  Bridge kind;
  int64_t first_i, last_i, first_j, last_j;

  // Whether `next` goes on behind a bulge: up to one residue more on one side, and four on the other.
  bool goes_on_in(const Ladder& next) const {
    constexpr int64_t kShort = 3, kLong = 6;
    if (kind != next.kind || next.first_i - last_i >= kLong || last_i >= next.first_i) return false;
    const int64_t gap_i = next.first_i - last_i,
                  gap_j = kind == Bridge::kParallel ? next.first_j - last_j : first_j - next.last_j;
    return gap_j > 0 && ((gap_j < kLong && gap_i < kShort) || gap_j < kShort);
  }
};

std::vector<Ladder> ladders_of(const Bonds& bond, int64_t count) {
  constexpr int64_t kNearest = 3;
  std::vector<Ladder> ladders;
  for (int64_t i = 1; i + kNearest < count; ++i)
    for (int64_t j = i + kNearest; j < count; ++j) {
      const Bridge kind = bridge_of(bond, i, j);
      if (kind == Bridge::kNone) continue;
      const auto longer = std::ranges::find_if(ladders, [&](const Ladder& ladder) {
        return ladder.kind == kind && ladder.last_i + 1 == i &&
               (kind == Bridge::kParallel ? ladder.last_j + 1 == j : ladder.first_j - 1 == j);
      });
      if (longer == ladders.end()) {
        ladders.push_back({kind, i, i, j, j});
      } else {
        longer->last_i = i;
        (kind == Bridge::kParallel ? longer->last_j : longer->first_j) = j;
      }
    }
  std::ranges::sort(ladders, {}, &Ladder::first_i);
  for (size_t i = 0; i < ladders.size(); ++i)
    for (size_t j = i + 1; j < ladders.size();) {
      if (!ladders[i].goes_on_in(ladders[j])) {
        ++j;
        continue;
      }
      ladders[i].last_i = ladders[j].last_i;
      ladders[i].first_j = std::min(ladders[i].first_j, ladders[j].first_j);
      ladders[i].last_j = std::max(ladders[i].last_j, ladders[j].last_j);
      ladders.erase(ladders.begin() + static_cast<int64_t>(j));
    }
  return ladders;
}

residues::Vec3 cb_of(const residues::Residue& residue) {
  // CB for ideal bond lengths and angles.
  const residues::Vec3 b = residue.ca - residue.n, c = residue.c - residue.ca, a = cross(b, c);
  return residue.ca + -0.58273431f * a + 0.56802827f * b + -0.54067466f * c;
}

}  // namespace

std::vector<SecondaryStructure> secondary_structure_of(std::span<const residues::Residue> chain) {
  using State = SecondaryStructure;
  const auto count = static_cast<int64_t>(chain.size());
  const Bonds bond(chain);
  // What a residue is in: nothing, a strand, or the helix of so many residues a turn.
  constexpr int kNothing = 0, kInStrand = 1;
  std::vector<int> in(chain.size(), kNothing);
  const auto fill = [&](int64_t first, int64_t last, int what) {
    std::fill(in.begin() + first, in.begin() + last + 1, what);
  };
  for (const Ladder& ladder : ladders_of(bond, count)) {
    fill(ladder.first_i, ladder.last_i, kInStrand);
    fill(ladder.first_j, ladder.last_j, kInStrand);
  }
  // An alpha helix is one whatever else is there, the others where nothing else is; a pi helix may take the
  // place of an alpha helix, which is the same here.
  for (const int turn : {4, 3, 5})
    for (int64_t i = 1; i + turn < count; ++i) {
      if (!bond(i - 1, i - 1 + turn) || !bond(i, i + turn)) continue;
      const auto first = in.begin() + i;
      const bool is_free = std::all_of(first, first + turn, [&](int what) {
        return what == kNothing || what == turn || (turn == 5 && what == 4);
      });
      if (turn == 4 || is_free) fill(i, i + turn - 1, turn);
    }
  std::vector<State> states;
  for (size_t i = 0; i < chain.size(); ++i)
    states.push_back(!chain[i].has_frame() ? State::kNotKnown
                     : in[i] == kNothing   ? State::kCoil
                     : in[i] == kInStrand  ? State::kStrand
                                           : State::kHelix);
  return states;
}

std::vector<std::pair<uint32_t, uint32_t>> contacts_of(std::span<const residues::Residue> chain,
                                                       int32_t apart) {
  constexpr float kContact = 8;  // Å
  std::vector<std::pair<uint32_t, uint32_t>> contacts;
  std::vector<residues::Vec3> cb;
  for (const residues::Residue& residue : chain)
    cb.push_back(residue.has_frame() ? cb_of(residue) : residues::Vec3{});
  for (size_t i = 0; i < chain.size(); ++i)
    for (size_t j = i + 1; j < chain.size(); ++j) {
      if (!chain[i].has_frame() || !chain[j].has_frame()) continue;
      if (chain[j].position - chain[i].position < apart) continue;
      if (norm_of(cb[i] - cb[j]) < kContact)
        contacts.emplace_back(static_cast<uint32_t>(i), static_cast<uint32_t>(j));
    }
  return contacts;
}

}  // namespace pipeline::structures
