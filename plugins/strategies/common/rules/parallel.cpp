// The one file here that is compiled with OpenMP.
#include "plugins/strategies/common/rules/parallel.hpp"

#include <ATen/Parallel.h>

namespace pipeline::strategies {

void parallel_tasks(int64_t count, c10::function_ref<void(int64_t)> body) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace pipeline::strategies
