// Loops over LibTorch's threads. at::parallel_for is a template over OpenMP's pragmas: in a file that is
// compiled without OpenMP, as all others here are, it is serial.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <c10/util/FunctionRef.h>

namespace pipeline::parallel {

// Threads that a parallel call may use: LibTorch's setting, 1 inside another parallel call.
int64_t thread_count();

// Runs body(task) for tasks 0 .. count - 1; each thread takes the next task when it is free. Tasks must not
// depend on each other nor on the thread they run on. `work`: operations in all; little work stays on this
// thread.
void tasks(int64_t count, int64_t work, c10::function_ref<void(int64_t)> body);
inline void tasks(int64_t count, c10::function_ref<void(int64_t)> body) {
  tasks(count, std::numeric_limits<int64_t>::max(), body);
}

// Runs body(begin, end) over rows 0 .. count - 1 in pieces of `grain` rows, each row of `row_work`
// operations.
template <class Body>
void rows(int64_t count, int64_t grain, int64_t row_work, const Body& body) {
  tasks((count + grain - 1) / grain, count * row_work,
        [&](int64_t task) { body(task * grain, std::min(count, (task + 1) * grain)); });
}

}  // namespace pipeline::parallel
