// The inputs of a forward pass besides its batch, and its result.
#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/torch/units.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>

PIPELINE_SDK_BEGIN

// TorchTask::pass() returns one; without a task, as in a test of a model, the defaults will do.
struct ForwardPass {
  bool training = false;                // dropout is active
  uint64_t dropout_seed = 0;            // of the micro-batch
  at::ScalarType compute = at::kFloat;  // of matrix products: see kOwnPrecision
  double scale = 1;                     // of the gradients
  Units* units = nullptr;               // null: layers are called directly

  // Receive parts of a parameter's gradient, each as soon as it is ready, dense parts first; see
  // TorchTask::deliver(). Empty: the gradient goes through autograd, in one piece.
  std::function<void(const at::Tensor& parameter, at::Tensor gradient)> deliver = nullptr;
  std::function<void(const at::Tensor& parameter, const at::Tensor& rows, const at::Tensor& values)>
      deliver_rows = nullptr;

  // See Units.
  Tensors run(uint32_t unit, const LayerFn& layer, const Tensors& inputs, const Tensors& parameters) const {
    return units == nullptr ? layer(inputs) : units->run(unit, layer, inputs, parameters);
  }
  Tensors run_once(uint32_t unit, const LayerFn& layer, const Tensors& inputs) const {
    return units == nullptr ? layer(inputs) : units->run_once(unit, layer, inputs);
  }
};

// The loss of a batch: the SUM over what batch_info() counts as weight, not the mean. The core divides by
// the weight of the whole global batch, over all micro-batches and ranks; a mean of means would weight
// ragged batches wrongly.
struct LossSum {
  explicit LossSum(at::Tensor tensor) : sum(std::move(tensor)) {}
  // For a loss that computes gradients as it goes, and so must know their scale.
  LossSum(at::Tensor plain, at::Tensor differentiable)
      : sum(std::move(plain)), scaled(std::move(differentiable)) {}

  at::Tensor sum;     // scalar, float32 or float64
  at::Tensor scaled;  // scalar, sum x ForwardPass::scale: root of the backward pass; undefined: `sum` is
};

// A model that itself runs its matrix products in ForwardPass::compute declares
// `static constexpr bool kOwnPrecision = true`; all others run under autocast.
template <class Model>
inline constexpr bool kOwnPrecision = requires {
  requires Model::kOwnPrecision;
};

PIPELINE_SDK_END
