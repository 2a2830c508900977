// Refuses every host, as entry.c does, with LibTorch and the SDK.
#include <ATen/Parallel.h>
#include <pipeline/plugin.hpp>

const pl_plugin* pl_plugin_entry(const pl_host*, pl_error**) {
  at::set_num_threads(1);
  return nullptr;
}
