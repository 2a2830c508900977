#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace pipeline::transformer {

// Our own kernels for the CPU take contiguous fp32 rows in host memory. Everything else (CUDA, bf16, fp16,
// fp64) goes through ATen, which computes the same functions, but for what cuda/kernels.hpp may take.
inline bool fast_path(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous();
}

// fast_path() for our matrix products and attention, which take rows with padding between them, too.
inline bool fast_rows(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.stride(1) == 1;
}

// Threads that a parallel call may use: LibTorch's setting, 1 inside another parallel call.
int64_t thread_count();

// Runs body(task) for tasks 0 .. count - 1 on LibTorch's threads; each thread takes the next task when it is
// free. Tasks must not depend on each other nor on the thread they run on. `work`: floating-point operations
// in all; little work stays on this thread.
void parallel_tasks(int64_t count, int64_t work, c10::function_ref<void(int64_t)> body);

// Runs body(begin, end) over rows 0 .. count - 1 in pieces of `grain` rows, each row of `row_work`
// operations.
template <class Body>
void parallel_rows(int64_t count, int64_t grain, int64_t row_work, const Body& body) {
  parallel_tasks((count + grain - 1) / grain, count * row_work,
                 [&](int64_t task) { body(task * grain, std::min(count, (task + 1) * grain)); });
}

}  // namespace pipeline::transformer
