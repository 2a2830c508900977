// Moves batches of tensors to the device.
#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>

#include <ATen/core/Tensor.h>

#include <string_view>

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

// Returns `batch` on `device`. For the CPU it copies the handles only; elsewhere it copies the tensors,
// without blocking the host if their memory is pinned.
template <NamesTensors B>
B batch_on(c10::Device device, B batch) {
  batch.tensors([&](at::Tensor& t) {
    if (t.defined()) t = t.to(device, /*non_blocking=*/true);
  });
  return batch;
}

// For make_batch(): throws unless all `ids` (int64, host memory) are row numbers of a table of `count`
// rows, or -1 if may_be_none. A device detects a bad row number late, and then fails all of the process's
// work there.
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
