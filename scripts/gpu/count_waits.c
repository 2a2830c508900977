/* Preloaded into a run: counts the calls by which the host waits for a device or asks the driver for memory,
 * and writes the counts to the file that COUNT_WAITS names at the end. Links nothing of CUDA: each function
 * passes on to the next. What is asked of the driver itself, past the runtime, is not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNTED(X)                                                                             \
  X(cudaStreamSynchronize, (void* stream), (stream))                                           \
  X(cudaEventSynchronize, (void* event), (event))                                              \
  X(cudaDeviceSynchronize, (void), ())                                                         \
  X(cudaMemcpy, (void* to, const void* from, size_t bytes, int kind), (to, from, bytes, kind)) \
  X(cudaMalloc, (void** pointer, size_t bytes), (pointer, bytes))                              \
  X(cudaFree, (void* pointer), (pointer))                                                      \
  X(cudaHostAlloc, (void** pointer, size_t bytes, unsigned flags), (pointer, bytes, flags))

#define DEFINE(name, parameters, arguments)                       \
  static long name##_count;                                       \
  int name parameters {                                           \
    static int(*next) parameters;                                 \
    if (!next) next = (int(*) parameters)dlsym(RTLD_NEXT, #name); \
    __atomic_add_fetch(&name##_count, 1, __ATOMIC_RELAXED);       \
    return next ? next arguments : 999;                           \
  }
COUNTED(DEFINE)

__attribute__((destructor)) static void write_counts(void) {
  const char* path = getenv("COUNT_WAITS");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (!file) return;
#define WRITE(name, parameters, arguments) fprintf(file, #name " %ld\n", name##_count);
  COUNTED(WRITE)
  fclose(file);
}
