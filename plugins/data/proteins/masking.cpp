#include "plugins/data/proteins/masking.hpp"

#include <algorithm>
#include <cmath>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::proteins {
namespace {

std::vector<size_t> known_residues(std::span<const uint8_t> amino_acids) {
  std::vector<size_t> known;
  for (size_t i = 0; i < amino_acids.size(); ++i)
    if (amino_acids[i] < residues::kAminoAcidCount) known.push_back(i);
  return known;
}

void shuffle(std::vector<size_t>& values, Random& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

void order_by_group(std::vector<ScoringPass>& passes) {
  std::ranges::stable_sort(passes, {}, &ScoringPass::group);
}

// Length of a stretch of at least one residue: geometric with this mean.
size_t draw_length(double mean, Random& random) {
  if (mean <= 1) return 1;
  return 1 + static_cast<size_t>(std::log(1 - random.uniform()) / std::log(1 - 1 / mean));
}

}  // namespace

Masking nothing_masked(std::span<const uint8_t> amino_acids) {
  return {.tokens = {amino_acids.begin(), amino_acids.end()},
          .is_target = std::vector<uint8_t>(amino_acids.size(), 0)};
}

std::vector<ScoringPass> scoring_passes(uint64_t sample, std::span<const uint32_t> group_of, int64_t most) {
  const auto length = static_cast<int64_t>(group_of.size());
  std::vector<ScoringPass> passes;
  for (int64_t score = 0; score < length; score += most) {
    const int64_t count = std::min(most, length), first = std::min(score, length - count);
    const std::span<const uint32_t> scored =
        group_of.subspan(static_cast<size_t>(score), static_cast<size_t>(first + count - score));
    std::vector<uint32_t> groups(scored.begin(), scored.end());
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    for (const uint32_t group : groups)
      if (group != kNoGroup)
        passes.push_back({.sample = static_cast<uint32_t>(sample),
                          .first = static_cast<int32_t>(first),
                          .count = static_cast<int32_t>(count),
                          .score = static_cast<int32_t>(score),
                          .group = group});
  }
  order_by_group(passes);
  return passes;
}

void ScoringPasses::add(std::vector<ScoringPass> passes) {
  others_.push_back(static_cast<uint32_t>(samples_++));
  passes_.insert(passes_.end(), passes.begin(), passes.end());
}

void ScoringPasses::finish() { order_by_group(passes_); }

ScoringPass ScoringPasses::operator[](uint64_t i) const {
  const uint64_t whole = groups_ * wholes();
  if (i >= whole) return passes_[i - whole];
  // Bisection for how many of the other samples stand before the whole sample of this number.
  auto sample = static_cast<uint32_t>(i % wholes());
  size_t before = 0, end = others_.size();
  while (before < end) {
    const size_t middle = (before + end) / 2;
    if (others_[middle] - middle <= sample)
      before = middle + 1;
    else
      end = middle;
  }
  sample += static_cast<uint32_t>(before);
  return {.sample = sample, .group = static_cast<uint32_t>(i / wholes())};
}

uint64_t scoring_groups(double ratio) {
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(1 / ratio - 1e-9)));
}

Masking mask_for_training(std::span<const uint8_t> amino_acids, std::span<const int64_t> chains,
                          const MaskingOptions& options, uint64_t seed) {
  Masking masking = nothing_masked(amino_acids);
  Random random(seed);
  std::vector<size_t> starts = known_residues(amino_acids);
  const auto wanted = static_cast<size_t>(std::llround(options.ratio * static_cast<double>(starts.size())));
  size_t left = std::min(std::max<size_t>(wanted, 1), starts.size());
  shuffle(starts, random);
  std::vector<size_t> targets;
  for (const size_t start : starts) {
    if (left == 0) break;
    const size_t length = draw_length(options.span, random);
    for (size_t i = start; i < amino_acids.size() && i < start + length && left > 0; ++i) {
      if (chains[i] != chains[start]) break;
      if (masking.is_target[i] != 0 || amino_acids[i] >= residues::kAminoAcidCount) continue;
      masking.is_target[i] = 1;
      targets.push_back(i);
      --left;
    }
  }
  std::sort(targets.begin(), targets.end());
  for (const size_t i : targets) {
    const double draw = random.uniform();
    if (draw < options.random) {
      masking.tokens[i] = static_cast<int64_t>(random.below(residues::kAminoAcidCount));
    } else if (draw >= options.random + options.keep) {
      masking.tokens[i] = residues::kMaskToken;
    }
  }
  return masking;
}

std::vector<uint32_t> deal_to_groups(std::span<const uint8_t> amino_acids, uint64_t groups, uint64_t seed) {
  std::vector<uint32_t> group_of(amino_acids.size(), kNoGroup);
  Random random(seed);
  std::vector<size_t> order = known_residues(amino_acids);
  shuffle(order, random);
  for (size_t n = 0; n < order.size(); ++n) group_of[order[n]] = static_cast<uint32_t>(n % groups);
  return group_of;
}

std::vector<uint8_t> amino_acids_to_mask(const Sample& sample, bool unknown_too) {
  std::vector<uint8_t> amino_acids = sample.codes;
  for (size_t i = 0; i < amino_acids.size(); ++i) {
    if (unknown_too && amino_acids[i] >= residues::kAminoAcidCount) amino_acids[i] = 0;
    if (sample.copy_of[i] != static_cast<int64_t>(i)) amino_acids[i] = residues::kUnknown;
  }
  return amino_acids;
}

Masking with_copies(Masking masking, const Sample& sample) {
  for (size_t i = 0; i < sample.copy_of.size(); ++i) {
    const auto original = static_cast<size_t>(sample.copy_of[i]);
    if (original == i) continue;
    const uint8_t own = sample.codes[i];
    masking.is_target[i] = own < residues::kAminoAcidCount ? masking.is_target[original] : uint8_t{0};
    const bool as_it_is =
        masking.is_target[i] == 0 || masking.tokens[original] == int64_t{sample.codes[original]};
    masking.tokens[i] = as_it_is ? int64_t{own} : masking.tokens[original];
  }
  return masking;
}

ScoringGroups scoring_groups_of(const Sample& sample, uint64_t groups, uint64_t seed, bool unknown_too) {
  ScoringGroups result = deal_to_groups(amino_acids_to_mask(sample, unknown_too), groups, seed);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = result[static_cast<size_t>(sample.copy_of[i])];
    if (!unknown_too && sample.codes[i] >= residues::kAminoAcidCount) result[i] = kNoGroup;
  }
  return result;
}

Masking mask_group(const Sample& sample, const ScoringGroups& groups, const ScoringPass& pass) {
  Masking masking;
  for (int64_t row = pass.first; row < pass.first + pass.count; ++row) {
    const auto at = static_cast<size_t>(row);
    const bool masked = groups[at] == pass.group;
    masking.tokens.push_back(masked ? residues::kMaskToken : int64_t{sample.codes[at]});
    masking.is_target.push_back(masked && row >= pass.score ? 1 : 0);
  }
  return masking;
}

}  // namespace pipeline::proteins
