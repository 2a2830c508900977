// Samples as batches.
#pragma once

#include <pipeline/task_types.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include "plugins/data/proteins/masking.hpp"
#include "plugins/data/proteins/sample.hpp"
#include "plugins/models/protein/geometry.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "plugins/tasks/protein/config.hpp"

namespace pipeline::tasks::protein {

using pipeline::protein::Geometry;
using pipeline::protein::PackedProteins;

// What a model sees of a structure: all that is there; not where masked residues are, which the batch says
// beside it; or nothing.
enum class Packing { kShow, kHide, kSequence };
Packing packing_of(const ProteinConfig& config);

struct ProteinBatch {
  PackedProteins packed;
  std::vector<uint64_t> target_clusters;  // of packed.targets: SplitRow::cluster_key
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;

  void add_targets(const proteins::Masking& masking, uint64_t cluster);

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
  }
};

// An empty batch of these samples.
ProteinBatch batch_of(const LoadRequest& request);

// All rows of the sample, for Packer::add().
std::vector<int64_t> all_rows(const proteins::Sample& sample);

// Builds a PackedProteins sample by sample.
class Packer {
 public:
  explicit Packer(Packing packing) : packing_(packing) {}

  // rows: which residues of the sample the model gets. The geometry is that of the whole sample, so that a
  // crop does not change what is near a residue. masking: of the rows. shared: the sample's geometry, where
  // it goes into several batches or places and nothing is hidden.
  void add(const proteins::Sample& sample, const std::vector<int64_t>& rows, const proteins::Masking& masking,
           Geometry* shared = nullptr);
  PackedProteins finish();

 private:
  PackedProteins batch_;
  std::vector<int64_t> tokens_, positions_, chains_, targets_;
  std::vector<float> frames_, local_;
  std::vector<uint8_t> flags_, placed_;
  std::vector<float> places_;
  Packing packing_;
};

// A sample while scoring passes over it are packed: what all of them need is found once.
class ScoredSample {
 public:
  // groups: see scoring_groups_of(). Where coordinates are hidden the geometry is another one in each pass.
  ScoredSample(proteins::Sample sample, proteins::ScoringGroups groups, Packing packing)
      : sample_(std::move(sample)), groups_(std::move(groups)) {
    if (packing == Packing::kShow)
      geometry_.emplace(sample_.backbone, sample_.chains, std::span<const uint8_t>());
  }
  ScoredSample(const ScoredSample&) = delete;  // the geometry points into the sample
  ScoredSample& operator=(const ScoredSample&) = delete;

  // Packs the residues of the pass and gives back how they are masked.
  proteins::Masking pack(Packer& packer, const proteins::ScoringPass& pass);

 private:
  const proteins::Sample sample_;
  const proteins::ScoringGroups groups_;
  std::optional<Geometry> geometry_;
};

}  // namespace pipeline::tasks::protein
