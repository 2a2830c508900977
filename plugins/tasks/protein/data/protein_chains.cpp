#include "plugins/tasks/protein/data/protein_chains.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "plugins/tasks/protein/data/candidate.hpp"

namespace pipeline::protein {
namespace {

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
    const bool has_atoms = range != written_as_atom.end();  // of the chain, in its part
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

std::vector<Residue> residues_of(const std::vector<Candidate>& candidates) {
  const std::vector<bool> members = members_of(candidates);
  std::vector<Residue> residues;
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
    std::vector<Residue> residues = residues_of(draft.candidates);
    if (residues.empty()) continue;
    std::string name = draft.base;
    while (!names.insert(name).second)
      name = draft.base + (draft.base.empty() ? "" : "-") + std::to_string(++copies[draft.base] + 1);
    structure.chains.push_back({std::move(name), std::move(residues)});
  }
  return structure;
}

}  // namespace pipeline::protein
