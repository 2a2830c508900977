#include "core/train/run/environment.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace pipeline::train {

unsigned compute_threads(const config::Config& config, const launch::Devices& devices, unsigned sharing) {
  if (const auto threads = config.find_int("launch.threads"); threads && *threads > 0)
    return static_cast<unsigned>(*threads);
  if (config.get_bool("run.reproducible")) return 1;
  return std::max(1u, devices.cores / sharing);
}

void set_environment(const config::Config& config, unsigned sharing) {
  const std::string threads = std::to_string(compute_threads(config, launch::find_devices(), sharing));
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) ::setenv(variable, threads.c_str(), 1);
  // How often a thread that waits for others looks before it gives its core away. GNU OpenMP's 300,000 are
  // milliseconds, and where somebody else is at work on the machine, the thread that is waited for needs that
  // core.
  if (!std::getenv("OMP_WAIT_POLICY")) ::setenv("GOMP_SPINCOUNT", "5000", 0);
  // cuBLAS gives the same bits only with a workspace of its own per stream.
  if (config.get_bool("run.reproducible")) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  // An error of NCCL's is ours to report: c10d's watchdog would end the process by SIGABRT.
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", 0);
  // Batches differ in shape, which otherwise leaves a device's memory in pieces that fit nothing.
  if (!std::getenv("PYTORCH_CUDA_ALLOC_CONF")) ::setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", 0);
}

}  // namespace pipeline::train
