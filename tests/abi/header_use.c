/* Compiled as every supported C and C++ standard by the tests: pipeline.h stands alone, may be included
 * twice, and what it promises about layout holds. */
#include "pipeline.h"

/* An array of negative size, and thereby an error, where `condition` is false. */
#define PROMISE(name, condition) typedef char promise_##name[(condition) ? 1 : -1]

PROMISE(str, sizeof(pl_str) == 16);
PROMISE(device, sizeof(pl_device) == 8 && offsetof(pl_device, id) == 4);
PROMISE(dtype, sizeof(pl_dtype) == 4 && offsetof(pl_dtype, lanes) == 2);
PROMISE(tensor, sizeof(pl_tensor) == 48 && offsetof(pl_tensor, byte_offset) == 40);
PROMISE(size_first, offsetof(pl_host, struct_size) == 0 && offsetof(pl_task_api, struct_size) == 0);

uint32_t use(const pl_load_args* args, const pl_task_api* api);
uint32_t use(const pl_load_args* args, const pl_task_api* api) {
  return PL_HAS(pl_load_args, args, epoch) && PL_HAS(pl_task_api, api, export_model) ? PL_ABI_MAJOR
                                                                                     : PL_ABI_MINOR;
}

const pl_plugin* pl_plugin_entry(const pl_host* host, pl_error** error) {
  (void)host;
  (void)error;
  return NULL;
}
