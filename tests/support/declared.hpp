#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <string>
#include <utility>
#include <vector>

namespace pipeline::tests {

// The parameters that a model declares, to be looked at and filled in.
template <class Model>
std::vector<std::pair<std::string, at::Tensor>> named(const Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& parameter : model.parameters()) all.emplace_back(parameter.name, parameter.tensor);
  return all;
}

template <class Model>
std::vector<at::Tensor> tensors(const Model& model) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : model.parameters()) all.push_back(parameter.tensor);
  return all;
}

template <class Model>
void zero_gradients(const Model& model) {
  for (const at::Tensor& parameter : tensors(model)) parameter.mutable_grad() = at::Tensor();
}

// Sets the values as before training, or as an imported folder has them.
template <class Model>
void initialize(const Model& model, uint64_t seed = 0) {
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    at::Tensor value = model.parameters()[i].tensor.detach();
    model.parameters().initialize(i, seed, value);
  }
}

}  // namespace pipeline::tests
