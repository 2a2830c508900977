// Which residues a model has to predict, and what it is shown in their place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/data/proteins/sample.hpp"

namespace pipeline::proteins {

// A forward pass of an evaluation: the residues first .. first + count - 1 of a sample, of which those from
// `score` on may be targets, masked by one of the groups that all residues are dealt out to.
struct ScoringPass {
  uint32_t sample = 0;
  int32_t first = 0, count = 0, score = 0;
  uint32_t group = 0;
};

// The passes of one sample that make each of its residues a target once, group after group; none is without
// targets. group_of: of each residue (ScoringGroups). A sample longer than `most` is looked at in pieces, the
// last of which overlaps the one before it.
std::vector<ScoringPass> scoring_passes(uint64_t sample, std::span<const uint32_t> group_of, int64_t most);

// The passes of many samples: of whole samples that have residues for all groups, group after group, so that
// the first passes are over different samples; and behind these those of all others, likewise. Memory grows
// with the latter alone.
class ScoringPasses {
 public:
  explicit ScoringPasses(uint64_t groups) : groups_(groups) {}

  // Adds the next sample, in order from 0: one that is looked at as a whole and has a target in each group;
  // or one with these passes.
  void add_whole() { ++samples_; }
  void add(std::vector<ScoringPass> passes);
  void finish();  // before what follows

  uint64_t size() const { return groups_ * wholes() + passes_.size(); }
  // count is 0 where it is all of the sample.
  ScoringPass operator[](uint64_t i) const;

 private:
  uint64_t wholes() const { return samples_ - others_.size(); }

  uint64_t groups_, samples_ = 0;
  std::vector<uint32_t> others_;  // samples with passes of their own, ascending
  std::vector<ScoringPass> passes_;
};

struct MaskingOptions {
  double ratio = 0.15;  // share of the known residues that are targets; one at least
  double random = 0.1;  // share of the targets shown as a random amino acid (Devlin et al. 2019, BERT: 0.1)
  double keep = 0.1;    // share of the targets shown as they are
  double span = 1;      // mean length of the stretches that are targets together
};

// What the model gets: for each residue the token it sees, and whether it is a target.
struct Masking {
  std::vector<int64_t> tokens;
  std::vector<uint8_t> is_target;
};

// All residues as they are, and no targets.
Masking nothing_masked(std::span<const uint8_t> amino_acids);

// The mask for training: a function of (amino acids, chains, options, seed). Unknown residues are never
// targets. `chains`: which chain each residue is of; a stretch ends with its chain.
Masking mask_for_training(std::span<const uint8_t> amino_acids, std::span<const int64_t> chains,
                          const MaskingOptions& options, uint64_t seed);

// For scoring: the known residues are dealt out to `groups` at random, which are masked one after another.
// The group of each residue, kNoGroup of those that are not known. With fewer residues than groups the last
// groups are empty.
constexpr uint32_t kNoGroup = UINT32_MAX;
std::vector<uint32_t> deal_to_groups(std::span<const uint8_t> amino_acids, uint64_t groups, uint64_t seed);

// The number of groups that hides the same share at a time as training does.
uint64_t scoring_groups(double ratio);

// Masks of samples: residues that are copies of each other are masked together, since one would give the
// other away.

// Amino acids as masks are drawn from them: copies are unknown, so that they are not drawn. unknown_too:
// residues that are unknown can be drawn.
std::vector<uint8_t> amino_acids_to_mask(const Sample& sample, bool unknown_too = false);

// `masking`, drawn from amino_acids_to_mask(), with what follows for copies: they are targets where what
// stands for them is, and look like it; one that is shown as it is in one place is so in all. Copies that are
// not known are no targets.
Masking with_copies(Masking masking, const Sample& sample);

// For each residue, the scoring pass of its sample in which it is masked; kNoGroup: none.
using ScoringGroups = std::vector<uint32_t>;
ScoringGroups scoring_groups_of(const Sample& sample, uint64_t groups, uint64_t seed,
                                bool unknown_too = false);

// The residues first .. first + count - 1 of the sample, those of `group` masked. Targets are those from
// residue `score` on.
Masking mask_group(const Sample& sample, const ScoringGroups& groups, const ScoringPass& pass);

}  // namespace pipeline::proteins
