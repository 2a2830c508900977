#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace pipeline::strategies {

// Runs body(i) for i from 0 to count - 1 on LibTorch's threads, in whatever order: at::parallel_for, which
// would be serial in a file that is compiled without OpenMP.
void parallel_tasks(int64_t count, c10::function_ref<void(int64_t)> body);

}  // namespace pipeline::strategies
