#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <memory>

#include <pipeline/parameter.hpp>
#include <pipeline/torch/tensor.hpp>

namespace pipeline::strategies {

// A tensor over the memory of a gradient that was handed over; frees it when the last reference goes.
inline at::Tensor adopt(Gradient& gradient) {
  at::Tensor view = to_torch(gradient.tensor());
  // std::function wants a copyable deleter, and the owner is not.
  auto owner = std::make_shared<Gradient::Owner>(gradient.take_owner());
  return at::for_blob(view.mutable_data_ptr(), view.sizes())
      .strides(view.strides())
      .options(view.options())
      .target_device(view.device())
      .deleter([owner](void*) {})  // the owner goes with the deleter
      .make_tensor();
}

}  // namespace pipeline::strategies
