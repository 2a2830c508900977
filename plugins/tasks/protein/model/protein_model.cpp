#include "plugins/tasks/protein/model/protein_model.hpp"

#include <ATen/ATen.h>

namespace pipeline::protein {

void PackedBatch::index() {
  const int64_t* const token = tokens.const_data_ptr<int64_t>();
  const int64_t* const chain = chains.const_data_ptr<int64_t>();
  visible_rows.clear();
  chain_rows = {};
  for (int64_t s = 0; s < samples.sequences(); ++s) {
    int64_t length = 0;
    for (int64_t n = samples.start(s); n < samples.start(s + 1); ++n) {
      if (token[n] != kMaskToken) visible_rows.push_back(n);
      if (length > 0 && chain[n] != chain[n - 1]) chain_rows.append(std::exchange(length, 0));
      ++length;
    }
    if (length > 0) chain_rows.append(length);
  }
}

std::vector<at::Tensor> ProteinModel::unit_parameters(uint32_t unit) const {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_.info(i).unit == unit) tensors.push_back(parameters_.named()[i].second);
  return tensors;
}

}  // namespace pipeline::protein
