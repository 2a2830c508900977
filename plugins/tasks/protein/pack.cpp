#include "plugins/tasks/protein/pack.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include "plugins/data/residues/residue.hpp"

namespace pipeline::tasks::protein {

Packing packing_of(const ProteinConfig& config) {
  return !config.sees_structure() ? Packing::kSequence : config.hides() ? Packing::kHide : Packing::kShow;
}

void ProteinBatch::add_targets(const proteins::Masking& masking, uint64_t cluster) {
  target_clusters.insert(
      target_clusters.end(),
      static_cast<size_t>(std::count(masking.is_target.begin(), masking.is_target.end(), 1)), cluster);
}

ProteinBatch batch_of(const LoadRequest& request) {
  return {.packed = {},
          .target_clusters = {},
          .ids = {request.ids.begin(), request.ids.end()},
          .split = request.split};
}

std::vector<int64_t> all_rows(const proteins::Sample& sample) {
  std::vector<int64_t> rows(sample.size());
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

void Packer::add(const proteins::Sample& sample, const std::vector<int64_t>& rows,
                 const proteins::Masking& masking, Geometry* shared) {
  const bool hides = packing_ == Packing::kHide;
  std::vector<uint8_t> hidden(hides ? sample.size() : 0, 0);
  for (size_t n = 0; hides && n < rows.size(); ++n)
    hidden[static_cast<size_t>(rows[n])] = masking.tokens[n] == residues::kMaskToken ? 1 : 0;
  std::optional<Geometry> own;
  if (packing_ != Packing::kSequence && shared == nullptr)
    shared = &own.emplace(sample.backbone, sample.chains, hidden);
  const auto append = [](std::vector<float>& to, auto from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (size_t n = 0; n < rows.size(); ++n) {
    const auto row = static_cast<size_t>(rows[n]);
    if (masking.is_target[n] != 0) {
      batch_.target_rows.push_back(static_cast<int64_t>(tokens_.size()));
      targets_.push_back(sample.codes[row]);
    }
    tokens_.push_back(masking.tokens[n]);
    positions_.push_back(sample.position(row));
    chains_.push_back(sample.chains[row]);
    if (shared != nullptr) {
      append(frames_, shared->frame(row));
      append(local_, shared->local(row));
      flags_.push_back(shared->flags(row));
    }
    if (!hides) continue;
    const residues::Vec3& ca = sample.backbone[row].ca;
    places_.insert(places_.end(), {ca.x, ca.y, ca.z});
    placed_.push_back(sample.has_ca(row) ? 1 : 0);
  }
  batch_.sequences.append(static_cast<int64_t>(rows.size()));
}

PackedProteins Packer::finish() {
  const auto rows = static_cast<int64_t>(tokens_.size());
  batch_.tokens = at::tensor(tokens_, at::kLong);
  batch_.positions = at::tensor(positions_, at::kLong);
  batch_.chains = at::tensor(chains_, at::kLong);
  if (packing_ != Packing::kSequence) {
    batch_.frames = at::tensor(frames_, at::kFloat).view({rows, pipeline::protein::kFrameSize});
    batch_.local = at::tensor(local_, at::kFloat).view({rows, pipeline::protein::kLocalFeatures});
    batch_.flags = at::tensor(flags_, at::kByte);
  }
  if (packing_ == Packing::kHide) {
    batch_.places = at::tensor(places_, at::kFloat).view({rows, 3});
    batch_.placed = at::tensor(placed_, at::kByte).to(at::kBool);
  }
  batch_.targets = at::tensor(targets_, at::kLong);
  batch_.index();
  return std::move(batch_);
}

proteins::Masking ScoredSample::pack(Packer& packer, const proteins::ScoringPass& pass) {
  proteins::Masking masking = proteins::mask_group(sample_, groups_, pass);
  std::vector<int64_t> rows(static_cast<size_t>(pass.count));
  std::iota(rows.begin(), rows.end(), pass.first);
  packer.add(sample_, rows, masking, geometry_ ? &*geometry_ : nullptr);
  return masking;
}

}  // namespace pipeline::tasks::protein
