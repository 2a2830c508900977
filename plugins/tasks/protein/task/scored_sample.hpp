#pragma once

#include <optional>

#include "plugins/tasks/protein/model/geometry.hpp"
#include "plugins/tasks/protein/task/pack.hpp"
#include "plugins/tasks/protein/task/sample_masking.hpp"

namespace pipeline::protein {

// A sample while scoring passes over it are packed: what all of them need is found once.
class ScoredSample {
 public:
  // groups: see scoring_groups_of(). hides: masks hide coordinates as well, so that the geometry is another
  // one in each pass.
  ScoredSample(Sample sample, ScoringGroups groups, bool hides)
      : sample_(std::move(sample)), groups_(std::move(groups)) {
    if (!hides) geometry_.emplace(sample_.residues, sample_.chains, std::span<const uint8_t>());
  }
  ScoredSample(const ScoredSample&) = delete;  // the geometry points into the sample
  ScoredSample& operator=(const ScoredSample&) = delete;

  // Packs the residues of the pass and gives back how they are masked.
  Masking pack(Packer& packer, const ScoringPass& pass);

 private:
  const Sample sample_;
  const ScoringGroups groups_;
  std::optional<Geometry> geometry_;
};

}  // namespace pipeline::protein
