/* The training of device_regression takes memory of the tests' own device: 16 MiB for each sample of a
 * micro-batch, and 128 from the size on that the variable FAKE_CUDA_STEEP_FROM names. */
#include <dlfcn.h>
#include <stdlib.h>

#include "linear_regression.h"

pl_error* __real_train(pl_task* self, const pl_batch* batch, const pl_train_args* raw, pl_tensor* loss);
pl_error* __wrap_train(pl_task* self, const pl_batch* batch, const pl_train_args* raw, pl_tensor* loss);

pl_error* __wrap_train(pl_task* self, const pl_batch* batch, const pl_train_args* raw, pl_tensor* loss) {
  const char* steep = getenv("FAKE_CUDA_STEEP_FROM");
  const size_t bytes = (size_t)batch->count << (steep && batch->count >= strtoull(steep, NULL, 10) ? 27 : 24);
  int (*take)(size_t);
  void* symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_cuda_take");
  memcpy(&take, &symbol, sizeof take);
  if (take(bytes)) return fail(self->host, PL_ERROR_OUT_OF_MEMORY, "train: no memory on the device");
  return __real_train(self, batch, raw, loss);
}
