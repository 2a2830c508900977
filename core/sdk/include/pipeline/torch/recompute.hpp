// Recomputation (activation checkpointing): a layer's activations are not kept for the backward pass but
// recomputed during it.
#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/torch/autocast.hpp>
#include <pipeline/torch/errors.hpp>
#include <pipeline/torch/random.hpp>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <vector>

PIPELINE_SDK_BEGIN

using Tensors = std::vector<at::Tensor>;
// A layer as a function of its inputs. Anything else it uses must not change between forward and backward.
using LayerFn = std::function<Tensors(const Tensors& inputs)>;

inline bool any_requires_grad(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& t) { return t.defined() && t.requires_grad(); });
}

// What the second computation needs to match the first bit for bit.
struct RecomputedLayer : torch::CustomClassHolder {
  RecomputedLayer(LayerFn fn, Tensors weights, c10::Device on)
      : layer(std::move(fn)),
        parameters(std::move(weights)),
        device(on),
        random(on),
        autocast(Autocast::current(on.type())) {}

  LayerFn layer;
  Tensors parameters;
  c10::Device device;
  RandomState random;
  Autocast autocast;
};

// The parameters are inputs, so that their gradients leave through this function like any other and each is
// complete when it arrives. With a nested backward() instead, those of a layer whose own input needs no
// gradient would be lost.
struct RecomputeFunction : torch::autograd::Function<RecomputeFunction> {
  using Context = torch::autograd::AutogradContext;

  static Tensors forward(Context* context, const c10::intrusive_ptr<RecomputedLayer>& state,
                         at::TensorList inputs, at::TensorList /*parameters*/) {
    context->save_for_backward(inputs.vec());
    context->saved_data["state"] = c10::IValue::make_capsule(state);
    context->set_materialize_grads(false);
    return state->layer(inputs.vec());
  }

  static Tensors backward(Context* context, const Tensors& output_gradients) {
    const auto state =
        c10::static_intrusive_pointer_cast<RecomputedLayer>(context->saved_data["state"].toCapsule());
    const Tensors saved = context->get_saved_variables();
    Tensors inputs, wanted;
    std::vector<size_t> position;  // of each wanted gradient among (inputs, parameters)
    for (size_t i = 0; i < saved.size(); ++i) {
      inputs.push_back(saved[i].detach());
      if (!context->needs_input_grad(i)) continue;
      inputs.back().requires_grad_(true);
      wanted.push_back(inputs.back());
      position.push_back(i);
    }
    for (size_t p = 0; p < state->parameters.size(); ++p) {
      if (!context->needs_input_grad(saved.size() + p)) continue;
      wanted.push_back(state->parameters[p]);
      position.push_back(saved.size() + p);
    }

    const Tensors outputs = run_again(*state, inputs);
    Tensors roots, root_gradients;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!output_gradients[i].defined() || !outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      root_gradients.push_back(output_gradients[i]);
    }
    Tensors result(1 + saved.size() + state->parameters.size());  // the first argument is not a tensor
    if (roots.empty() || wanted.empty()) return result;
    Tensors gradients =
        torch::autograd::grad(roots, wanted, root_gradients, std::nullopt, false, /*allow_unused=*/true);
    for (size_t i = 0; i < gradients.size(); ++i) result[1 + position[i]] = std::move(gradients[i]);
    return result;
  }

 private:
  static Tensors run_again(const RecomputedLayer& state, const Tensors& inputs) {
    const RandomState later(state.device);
    state.random.restore();
    Tensors outputs;
    {
      const at::AutoGradMode record(true);
      const AutocastScope scope(state.autocast);
      outputs = state.layer(inputs);
    }
    later.restore();
    return outputs;
  }
};

// Returns layer(inputs), keeping only the inputs for the backward pass. `parameters`: every other tensor
// that the layer uses and that needs a gradient.
inline Tensors recompute(const LayerFn& layer, const Tensors& inputs, const Tensors& parameters) {
  if (!at::GradMode::is_enabled() || (!any_requires_grad(inputs) && !any_requires_grad(parameters)))
    return layer(inputs);
  const c10::Device device = !inputs.empty() ? inputs.front().device() : parameters.front().device();
  return RecomputeFunction::apply(c10::make_intrusive<RecomputedLayer>(layer, parameters, device),
                                  at::TensorList(inputs), at::TensorList(parameters));
}

PIPELINE_SDK_END
