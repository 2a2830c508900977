// What the allocator does with memory that is freed: for the program, and for benchmarks that stand for it.
#pragma once

#include <malloc.h>

namespace pipeline::cli {

// Tensors come and go every step. glibc would map and unmap each one, and the kernel would clear its pages
// again every time. Only the largest, of 32 MiB and more (it takes no higher threshold), are mapped: in a
// heap the holes that they leave would be cut up by small ones, and the next one find none.
inline void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace pipeline::cli
