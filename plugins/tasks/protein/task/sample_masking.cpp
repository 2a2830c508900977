#include "plugins/tasks/protein/task/sample_masking.hpp"

#include "plugins/tasks/protein/model/tokens.hpp"

namespace pipeline::protein {

std::vector<uint8_t> amino_acids_to_mask(const Sample& sample, bool unknown_too) {
  std::vector<uint8_t> amino_acids = sample.amino_acids();
  for (size_t i = 0; i < amino_acids.size(); ++i) {
    if (unknown_too && amino_acids[i] == kUnknown) amino_acids[i] = 0;
    if (sample.copy_of[i] != static_cast<int64_t>(i)) amino_acids[i] = kUnknown;
  }
  return amino_acids;
}

Masking with_copies(Masking masking, const Sample& sample) {
  for (size_t i = 0; i < sample.copy_of.size(); ++i) {
    const auto original = static_cast<size_t>(sample.copy_of[i]);
    if (original == i) continue;
    const uint8_t own = sample.residues[i].amino_acid;
    masking.is_target[i] = own < kAminoAcidCount ? masking.is_target[original] : uint8_t{0};
    const bool as_it_is = masking.is_target[i] == 0 ||
                          masking.tokens[original] == int64_t{sample.residues[original].amino_acid};
    masking.tokens[i] = as_it_is ? int64_t{own} : masking.tokens[original];
  }
  return masking;
}

ScoringGroups scoring_groups_of(const Sample& sample, uint64_t groups, uint64_t seed, bool unknown_too) {
  ScoringGroups result = deal_to_groups(amino_acids_to_mask(sample, unknown_too), groups, seed);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = result[static_cast<size_t>(sample.copy_of[i])];
    if (!unknown_too && sample.residues[i].amino_acid >= kAminoAcidCount) result[i] = kNoGroup;
  }
  return result;
}

Masking mask_group(const Sample& sample, const ScoringGroups& groups, const ScoringPass& pass) {
  Masking masking;
  for (int64_t row = pass.first; row < pass.first + pass.count; ++row) {
    const auto at = static_cast<size_t>(row);
    const bool masked = groups[at] == pass.group;
    masking.tokens.push_back(masked ? kMaskToken : int64_t{sample.residues[at].amino_acid});
    masking.is_target.push_back(masked && row >= pass.score ? 1 : 0);
  }
  return masking;
}

}  // namespace pipeline::protein
