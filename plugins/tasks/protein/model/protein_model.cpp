#include "plugins/tasks/protein/model/protein_model.hpp"

namespace pipeline::protein {

std::vector<at::Tensor> ProteinModel::unit_parameters(uint32_t unit) const {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_.info(i).unit == unit) tensors.push_back(parameters_.named()[i].second);
  return tensors;
}

}  // namespace pipeline::protein
