// The one file compiled with OpenMP.
#include "plugins/parallel/parallel.hpp"

#include <ATen/Parallel.h>

#include <atomic>

namespace pipeline::parallel {
namespace {

// Waking the other threads and waiting for them costs some microseconds, and far more when the machine is
// shared.
constexpr int64_t kLeastWork = 1 << 19;

}  // namespace

int64_t thread_count() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

void tasks(int64_t count, int64_t work, c10::function_ref<void(int64_t)> body) {
  const int64_t threads = work < kLeastWork ? 1 : std::min(count, thread_count());
  if (threads <= 1) {
    for (int64_t task = 0; task < count; ++task) body(task);
    return;
  }
  std::atomic<int64_t> next{0};
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      for (int64_t task = next++; task < count; task = next++) body(task);
    }
  });
}

}  // namespace pipeline::parallel
