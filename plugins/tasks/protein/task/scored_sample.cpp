#include "plugins/tasks/protein/task/scored_sample.hpp"

#include <numeric>

namespace pipeline::protein {

Masking ScoredSample::pack(Packer& packer, const ScoringPass& pass) {
  Masking masking = mask_group(sample_, groups_, pass);
  std::vector<int64_t> rows(static_cast<size_t>(pass.count));
  std::iota(rows.begin(), rows.end(), pass.first);
  packer.add(sample_, rows, masking, geometry_ ? &*geometry_ : nullptr);
  return masking;
}

}  // namespace pipeline::protein
