// Batches of tensors on their way to the device.
#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>

#include <ATen/core/Tensor.h>

#include <string_view>
#include <utility>

PIPELINE_SDK_BEGIN

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

// For make_batch(): numbers that choose rows of a table, int64 in host memory, each below `count`; -1 where
// there may be none. On a device a wrong one is noticed late and ends all work of the process there.
inline void require_ids(const at::Tensor& ids, int64_t count, std::string_view what,
                        bool may_be_none = false) {
  const at::Tensor flat = ids.contiguous();
  const int64_t* const values = flat.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (values[i] >= (may_be_none ? -1 : 0) && values[i] < count) continue;
    fail(what, " ", values[i], " at row ", i, " of a batch: must be 0 to ", count - 1);
  }
}

PIPELINE_SDK_END
