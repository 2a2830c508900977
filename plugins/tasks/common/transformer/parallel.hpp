#pragma once

#include <c10/util/FunctionRef.h>

#include <algorithm>
#include <cstdint>

namespace pipeline::transformer {

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
