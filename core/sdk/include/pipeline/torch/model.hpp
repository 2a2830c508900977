// What the SDK requires of a model: it is a torch::nn::Module or another class with named parameters, or it
// declares its parameters.
#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <ATen/core/Tensor.h>

#include <concepts>
#include <string>

PIPELINE_SDK_BEGIN

template <class T>
concept DeclaresParameters = requires(T& model) {
  { model.parameters() } -> std::same_as<ParameterRegistry&>;
};

// named_parameters() yields torch's OrderedDict items or pairs of (name, tensor).
template <class T>
concept HasNamedParameters = requires(T& model) {
  model.named_parameters();
};

template <class Items, class F>
void for_each_named(Items&& items, F&& visit) {
  for (auto&& item : items) {
    if constexpr (requires { item.key(); }) {
      visit(item.key(), item.value());
    } else {
      visit(item.first, item.second);
    }
  }
}

template <class Model>
void set_training(Model& model, bool on) {
  if constexpr (requires { model.train(on); }) model.train(on);
}

PIPELINE_SDK_END
