// What this machine can compute with. Asks the CUDA driver directly (libcuda, if there is one), so it needs neither LibTorch nor the
// CUDA runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/abi/pipeline.h"

namespace pipeline::launch {

struct CudaDevice {
  std::string name;
  uint64_t memory = 0;  // bytes
  int major = 0, minor = 0;  // compute capability
};

struct Devices {
  std::string cpu;        // model name
  unsigned cores = 1;     // that this process may use
  uint64_t memory = 0;    // bytes, of the machine or its cgroup
  std::string cuda_driver;   // "13.0"; empty: no driver
  std::string cuda_problem;  // why there are no devices in spite of a driver; empty otherwise
  std::vector<CudaDevice> cuda;  // in the order of CUDA_VISIBLE_DEVICES
};

Devices find_devices();

// bf16 arithmetic in hardware: from compute capability 8.0 on.
bool has_bf16(const CudaDevice& device);

std::string describe(pl_device device, const Devices& devices);  // "cuda:0 (NVIDIA H100, 80 GB)", "cpu (AMD EPYC, 2 cores)"

}  // namespace pipeline::launch
