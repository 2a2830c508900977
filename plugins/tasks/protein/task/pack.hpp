#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plugins/tasks/protein/model/geometry.hpp"
#include "plugins/tasks/protein/model/protein_model.hpp"
#include "plugins/tasks/protein/task/masking.hpp"
#include "plugins/tasks/protein/task/sample.hpp"

namespace pipeline::protein {

// Builds a PackedProteins sample by sample.
class Packer {
 public:
  // hide: masked residues lose their coordinates as well, and the batch says where they were.
  explicit Packer(bool hide) : hide_(hide) {}

  // rows: which residues of the sample the model gets. The geometry is that of the whole sample, so that a
  // crop does not change what is near a residue. masking: of the rows. shared: the sample's geometry, where
  // it goes into several batches or places and nothing is hidden.
  void add(const Sample& sample, const std::vector<int64_t>& rows, const Masking& masking,
           Geometry* shared = nullptr);
  PackedProteins finish();

 private:
  PackedProteins batch_;
  std::vector<int64_t> tokens_, positions_, chains_, targets_;
  std::vector<float> frames_, local_;
  std::vector<uint8_t> flags_, placed_;
  std::vector<float> places_;
  bool hide_;
};

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
