#include "plugins/data/structures/protein_chains.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace pipeline::structures {
namespace {

// A residue that may be one of a protein's: what is around it decides (protein_chains.hpp).
struct Candidate {
  residues::Residue residue;  // all but its position
  ResidueName::Kind kind;
  bool het;                  // written as HETATM
  bool has_n, has_c;         // atoms that are there, whether or not N, CA and C make a frame
  std::optional<int> label;  // mmCIF's label_seq_id: the place in the whole sequence, unseen ones included
  size_t part = 0;           // of the chain
  residues::Vec3 n, c;       // as far as they are there
};

constexpr double kFarthest = 1e5;  // Å from the origin
constexpr float kBond = 2.5f;      // Å, the longest C-N taken for a bond
constexpr float kCaStep = 4.5f;    // Å, the longest CA-CA over a bond; 3.8 Å, or 2.9 Å at a cis bond
constexpr float kShortest = 0.5f, kLongest = 3;  // Å, N-CA and CA-C; 1.46 Å and 1.52 Å in nature
constexpr float kLeastSine = 0.1f;               // of the angle at CA, so that N, CA and C span a plane

float length(const residues::Vec3& a) { return std::hypot(a.x, a.y, a.z); }
float distance(const residues::Vec3& a, const residues::Vec3& b) { return length(a - b); }

bool is_frame(const residues::Vec3& n, const residues::Vec3& ca, const residues::Vec3& c) {
  const residues::Vec3 to_n = n - ca, to_c = c - ca;
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

residues::Vec3 position_of(const gemmi::Atom& atom) {
  return {static_cast<float>(atom.pos.x), static_cast<float>(atom.pos.y), static_cast<float>(atom.pos.z)};
}

Candidate candidate_of(const gemmi::Residue& from, ResidueName name, char conformer) {
  Candidate candidate{};
  candidate.kind = name.kind;
  candidate.het = from.het_flag == 'H';
  candidate.label = optional_of(from.label_seq);
  residues::Residue& residue = candidate.residue;
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
    residue.flags |= residues::Residue::kHasCa;
    residue.ca = position_of(*ca);
    if (n != nullptr && c != nullptr && is_frame(candidate.n, residue.ca, candidate.c)) {
      residue.flags |= residues::Residue::kHasFrame;
      residue.n = candidate.n;
      residue.c = candidate.c;
    }
  } else if (name.kind == ResidueName::kModified) {
    residue.amino_acid =
        residues::kUnknown;  // a chromophore made of several residues, say: its atoms have other names
  }
  return candidate;
}

// The candidates of one part of a chain, in its order. Of the alternate locations of a residue, the names at
// one place included, the one with the highest sum of occupancies of N, CA and C is taken, and no atom of
// another; of equal ones the first letter. Atoms that are not finite or further than 1e5 Å from the origin
// count as missing.
std::vector<Candidate> candidates_of(const gemmi::Chain& part, const ParentNames& parents) {
  std::vector<Candidate> candidates;
  candidates.reserve(part.residues.size());
  struct Taken {
    const gemmi::Residue* residue;
    size_t at;  // place among `candidates`
    float occupancy;
  };
  // Number, insertion code, segment, label.
  using Place = std::tuple<int, char, std::string_view, std::optional<int>>;
  std::map<Place, Taken> places;
  for (const auto& residue : part.residues) {
    const ResidueName name = residue_name(residue.name, parents);
    if (name.kind == ResidueName::kNotProtein) continue;
    const Conformer conformer = best_conformer(residue);
    const Candidate candidate = candidate_of(residue, name, conformer.letter);
    if (name.kind == ResidueName::kOther && !candidate.residue.has_frame()) continue;
    // Residues at one place, wherever they stand in the part, are alternate locations, unless all are written
    // without letters (then numbers just do not count up, or it is a copy). For residues that follow each
    // other mmCIF's label says it.
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

// Whether the number of `second` is the one after that of `first`, or the same with another insertion code.
bool numbered_on(const Candidate& first, const Candidate& second) {
  const int64_t step = int64_t{second.residue.number} - first.residue.number;
  return step == 1 || (step == 0 && second.residue.insertion != first.residue.insertion);
}

// Whether a peptide bond joins them: C and N within 2.5 Å; where one of the two is missing, neighbouring
// numbers and CA within 4.5 Å.
bool bonded(const Candidate& first, const Candidate& second) {
  if (first.has_c && second.has_n) return distance(first.c, second.n) <= kBond;
  if (!numbered_on(first, second)) return false;
  return first.residue.has_ca() && second.residue.has_ca() &&
         distance(first.residue.ca, second.residue.ca) <= kCaStep;
}

constexpr int64_t kLargestGap = 1000, kLargestLabelGap = 100'000;

struct ChainDraft {
  std::string base;  // its name in the file
  std::vector<Candidate> candidates;
  std::set<std::pair<int32_t, char>> numbers;
};

// Files of molecular dynamics often have segments instead of chains. Old PDB files have their own code there,
// the same on each line.
bool segments_differ(const ModelParts& model) {
  std::set<std::string> names;
  for (const auto& part : model.parts) {
    if (part.name.empty() && !part.residues.empty()) names.insert(part.residues.front().segment);
  }
  return names.size() > 1;
}

bool belongs_to(const ChainDraft& chain, const std::vector<Candidate>& part) {
  if (chain.base.empty() && !bonded(chain.candidates.back(), part.front())) return false;
  return std::none_of(part.begin(), part.end(), [&](const Candidate& candidate) {
    return chain.numbers.count({candidate.residue.number, candidate.residue.insertion}) > 0;
  });
}

std::vector<ChainDraft> drafts_of(const ModelParts& model) {
  const bool by_segment = segments_differ(model);
  std::vector<ChainDraft> drafts;
  std::map<std::string, std::vector<size_t>> known;  // drafts by base name
  for (size_t p = 0; p < model.parts.size(); ++p) {
    const gemmi::Chain& part = model.parts[p];
    std::vector<Candidate> candidates = candidates_of(part, model.parents);
    if (candidates.empty()) continue;
    const std::string& base = part.name.empty() && by_segment ? part.residues.front().segment : part.name;
    auto& same = known[base];
    const auto of_part =
        std::find_if(same.begin(), same.end(), [&](size_t i) { return belongs_to(drafts[i], candidates); });
    const size_t at = of_part == same.end() ? drafts.size() : *of_part;
    if (at == drafts.size()) {
      drafts.push_back({base, {}, {}});
      same.push_back(at);
    }
    for (auto& candidate : candidates) {
      candidate.part = p;
      drafts[at].numbers.emplace(candidate.residue.number, candidate.residue.insertion);
      drafts[at].candidates.push_back(candidate);
    }
  }
  return drafts;
}

// For each candidate whether it is one of the protein's residues.
std::vector<bool> members_of(const std::vector<Candidate>& candidates) {
  struct Range {
    size_t first = std::numeric_limits<size_t>::max(), last = 0;
    bool holds(size_t i) const { return first < i && i < last; }
  };
  std::map<size_t, Range> written_as_atom;  // by part: its amino acids that are ATOM records
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].het || candidates[i].kind < ResidueName::kModified) continue;
    Range& range = written_as_atom[candidates[i].part];
    range.first = std::min(range.first, i);
    range.last = i;
  }
  std::vector<bool> members(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const bool is_amino_acid = candidate.kind >= ResidueName::kModified;
    const auto range = written_as_atom.find(candidate.part);
    const bool has_atoms = range != written_as_atom.end();  // the chain has ATOM records in this part
    const bool inside = has_atoms && (range->second.holds(i) || candidate.label);
    members[i] = (is_amino_acid && (!candidate.het || inside)) ||
                 (i > 0 && bonded(candidates[i - 1], candidate)) ||
                 (i + 1 < candidates.size() && bonded(candidate, candidates[i + 1]));
  }
  return members;
}

int64_t step_between(const Candidate& before, const Candidate& after) {
  if (before.label && after.label) {
    const int64_t labels = int64_t{*after.label} - *before.label;
    if (labels >= 1 && labels <= kLargestLabelGap) return labels;
  }
  if (bonded(before, after)) return 1;
  if (numbered_on(before, after)) return 1;
  const int64_t apart = int64_t{after.residue.number} - before.residue.number;
  return apart >= 1 && apart <= kLargestGap ? apart : 2;
}

std::vector<residues::Residue> residues_of(const std::vector<Candidate>& candidates) {
  const std::vector<bool> members = members_of(candidates);
  std::vector<residues::Residue> residues;
  residues.reserve(candidates.size());
  const Candidate* before = nullptr;
  int64_t position = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!members[i]) continue;
    if (before != nullptr) position += step_between(*before, candidates[i]);
    position = std::min<int64_t>(position, std::numeric_limits<int32_t>::max());
    residues.push_back(candidates[i].residue);
    residues.back().position = static_cast<int32_t>(position);
    before = &candidates[i];
  }
  return residues;
}

}  // namespace

Structure protein_chains(const ModelParts& model) {
  Structure structure;
  std::map<std::string, int> copies;
  std::set<std::string> names;
  for (const ChainDraft& draft : drafts_of(model)) {
    std::vector<residues::Residue> residues = residues_of(draft.candidates);
    if (residues.empty()) continue;
    std::string name = draft.base;
    while (!names.insert(name).second)
      name = draft.base + (draft.base.empty() ? "" : "-") + std::to_string(++copies[draft.base] + 1);
    structure.chains.push_back({std::move(name), std::move(residues)});
  }
  return structure;
}

}  // namespace pipeline::structures
