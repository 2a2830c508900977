#include "plugins/tasks/protein/data/candidate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

namespace pipeline::protein {
namespace {

constexpr double kFarthest = 1e5;  // Å from the origin
constexpr float kBond = 2.5f;      // Å, the longest C-N taken for a bond
constexpr float kCaStep = 4.5f;    // Å, the longest CA-CA over a bond; 3.8 Å, or 2.9 Å at a cis bond
constexpr float kShortest = 0.5f, kLongest = 3;  // Å, N-CA and CA-C; 1.46 Å and 1.52 Å in nature
constexpr float kLeastSine = 0.1f;               // of the angle at CA, so that N, CA and C span a plane

float length(const Vec3& a) { return std::hypot(a.x, a.y, a.z); }
float distance(const Vec3& a, const Vec3& b) { return length(a - b); }

bool is_frame(const Vec3& n, const Vec3& ca, const Vec3& c) {
  const Vec3 to_n = n - ca, to_c = c - ca;
  const float first = length(to_n), second = length(to_c);
  const auto usual = [](float bond) { return bond >= kShortest && bond <= kLongest; };
  return usual(first) && usual(second) && length(cross(to_n, to_c)) >= kLeastSine * first * second;
}

bool is_there(const gemmi::Atom& atom) {
  const auto usual = [](double x) { return std::abs(x) <= kFarthest; };  // false for NaN
  return usual(atom.pos.x) && usual(atom.pos.y) && usual(atom.pos.z);
}

bool is_backbone(const gemmi::Atom& atom) {
  return atom.name == "N" || atom.name == "CA" || atom.name == "C";
}

// The atom of this name in a conformer: its own, or the one that all share.
const gemmi::Atom* find_atom(const gemmi::Residue& residue, std::string_view name, char conformer) {
  const gemmi::Atom* shared = nullptr;
  for (const auto& atom : residue.atoms) {
    if (atom.name != name || !is_there(atom)) continue;
    if (atom.altloc == conformer) return &atom;
    if (atom.altloc == '\0' && shared == nullptr) shared = &atom;
  }
  return shared;
}

struct Conformer {
  char letter = '\0';
  float occupancy = -1;  // sum over N, CA and C
};

// An atom with a blank beside the same one with a letter: the blank is a conformer, too.
bool is_shared(const gemmi::Residue& residue, const gemmi::Atom& atom) {
  return std::none_of(residue.atoms.begin(), residue.atoms.end(), [&](const gemmi::Atom& other) {
    return other.altloc != '\0' && other.name == atom.name;
  });
}

Conformer best_conformer(const gemmi::Residue& residue) {
  std::vector<char> letters;
  for (const auto& atom : residue.atoms) {
    if (is_backbone(atom) && (atom.altloc != '\0' || !is_shared(residue, atom)))
      letters.push_back(atom.altloc);
  }
  if (letters.empty()) letters.push_back('\0');
  std::sort(letters.begin(), letters.end());
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  Conformer best;
  for (const char letter : letters) {
    float sum = 0;
    for (const auto* name : {"N", "CA", "C"}) {
      const gemmi::Atom* atom = find_atom(residue, name, letter);
      if (atom != nullptr && atom->occ > 0 && atom->occ < 1e3f) sum += atom->occ;
    }
    if (sum > best.occupancy) best = {letter, sum};
  }
  return best;
}

bool has_letters(const gemmi::Residue& residue) {
  return std::any_of(residue.atoms.begin(), residue.atoms.end(),
                     [](const gemmi::Atom& atom) { return atom.altloc != '\0'; });
}

std::optional<int> optional_of(const gemmi::SeqId::OptionalNum& number) {
  return number.has_value() ? std::optional<int>(*number) : std::nullopt;
}

Vec3 position_of(const gemmi::Atom& atom) {
  return {static_cast<float>(atom.pos.x), static_cast<float>(atom.pos.y), static_cast<float>(atom.pos.z)};
}

Candidate candidate_of(const gemmi::Residue& from, ResidueName name, char conformer) {
  Candidate candidate{};
  candidate.kind = name.kind;
  candidate.het = from.het_flag == 'H';
  candidate.label = optional_of(from.label_seq);
  Residue& residue = candidate.residue;
  residue.amino_acid = name.amino_acid;
  residue.number = from.seqid.num.value;  // always there (ModelParts); gemmi takes -999 for none
  residue.insertion = from.seqid.icode;
  if (residue.insertion >= '0' && residue.insertion <= '9' &&
      std::abs(residue.number) <= 99'999'999) {  // numbers of five digits
    residue.number =
        residue.number * 10 + (residue.number < 0 ? '0' - residue.insertion : residue.insertion - '0');
    residue.insertion = ' ';
  }
  const auto *n = find_atom(from, "N", conformer), *ca = find_atom(from, "CA", conformer),
             *c = find_atom(from, "C", conformer);
  candidate.has_n = n != nullptr;
  candidate.has_c = c != nullptr;
  if (n != nullptr) candidate.n = position_of(*n);
  if (c != nullptr) candidate.c = position_of(*c);
  if (ca != nullptr) {
    residue.flags |= Residue::kHasCa;
    residue.ca = position_of(*ca);
    if (n != nullptr && c != nullptr && is_frame(candidate.n, residue.ca, candidate.c)) {
      residue.flags |= Residue::kHasFrame;
      residue.n = candidate.n;
      residue.c = candidate.c;
    }
  } else if (name.kind == ResidueName::kModified) {
    residue.amino_acid = kUnknown;  // a chromophore made of several residues, say: its atoms have other names
  }
  return candidate;
}

}  // namespace

std::vector<Candidate> candidates_of(const gemmi::Chain& part, const ParentNames& parents) {
  std::vector<Candidate> candidates;
  candidates.reserve(part.residues.size());
  struct Taken {
    const gemmi::Residue* residue;
    size_t at;  // of candidates
    float occupancy;
  };
  using Place =
      std::tuple<int, char, std::string_view, std::optional<int>>;  // number, insertion code, segment, label
  std::map<Place, Taken> places;
  for (const auto& residue : part.residues) {
    const ResidueName name = residue_name(residue.name, parents);
    if (name.kind == ResidueName::kNotProtein) continue;
    const Conformer conformer = best_conformer(residue);
    const Candidate candidate = candidate_of(residue, name, conformer.letter);
    if (name.kind == ResidueName::kOther && !candidate.residue.has_frame()) continue;
    // What comes again at one place, wherever it stands in the part: alternate locations, unless all are
    // written without letters (then numbers just do not count up, or it is a copy). mmCIF's label says it for
    // what follows each other.
    const auto [found, is_new] = places.try_emplace(
        Place{candidate.residue.number, candidate.residue.insertion, residue.segment, candidate.label},
        Taken{&residue, candidates.size(), conformer.occupancy});
    Taken& taken = found->second;
    const bool follows = candidate.label && taken.at + 1 == candidates.size();
    if (is_new || !(follows || (has_letters(*taken.residue) && has_letters(residue)))) {
      taken = {&residue, candidates.size(), conformer.occupancy};
      candidates.push_back(candidate);
    } else if (conformer.occupancy > taken.occupancy) {
      taken = {&residue, taken.at, conformer.occupancy};
      candidates[taken.at] = candidate;
    }
  }
  return candidates;
}

bool numbered_on(const Candidate& first, const Candidate& second) {
  const int64_t step = int64_t{second.residue.number} - first.residue.number;
  return step == 1 || (step == 0 && second.residue.insertion != first.residue.insertion);
}

bool bonded(const Candidate& first, const Candidate& second) {
  if (first.has_c && second.has_n) return distance(first.c, second.n) <= kBond;
  if (!numbered_on(first, second)) return false;
  return first.residue.has_ca() && second.residue.has_ca() &&
         distance(first.residue.ca, second.residue.ca) <= kCaStep;
}

}  // namespace pipeline::protein
