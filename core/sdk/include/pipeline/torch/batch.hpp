// Batches of tensors on their way to the device.
#pragma once

#include <pipeline/error.hpp>

#include <ATen/core/Tensor.h>

#include <utility>

namespace pipeline {
inline namespace [[gnu::visibility("hidden")]] sdk_v1 {

struct TensorVisitor {
  void operator()(at::Tensor&) const;
};

// A batch struct names its tensors, so that the SDK can move them:
//   struct Batch {
//     at::Tensor x, y;
//     template <class V> void tensors(V&& visit) { visit(x); visit(y); }
//   };
template <class T>
concept NamesTensors = requires(T batch, TensorVisitor visit) {
  batch.tensors(visit);
};

template <NamesTensors B>
void pin_batch(B& batch) {
  batch.tensors([](at::Tensor& t) {
    if (t.defined() && t.is_cpu()) t = t.pin_memory();
  });
}

// Copies of the handles on the CPU; elsewhere the copies run beside the host, if the memory is pinned.
template <NamesTensors B>
B batch_on(c10::Device device, B batch) {
  batch.tensors([&](at::Tensor& t) {
    if (t.defined()) t = t.to(device, /*non_blocking=*/true);
  });
  return batch;
}

}  // namespace gnu::visibility("hidden")]]sdk_v1
}  // namespace pipeline
