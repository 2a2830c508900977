// What this machine can compute with. Asks the CUDA driver directly (libcuda, if there is one), so it needs
// neither LibTorch nor the CUDA runtime.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/abi/pipeline.h"

namespace pipeline::launch {

struct CudaDevice {
  std::string name;
  uint64_t memory = 0;       // bytes
  int major = 0, minor = 0;  // compute capability
};

struct Devices {
  std::string cpu;               // model name
  unsigned cores = 1;            // that this process may use
  uint64_t memory = 0;           // bytes, of the machine or its cgroup
  int cuda_driver = 0;           // the newest CUDA that the driver supports: 13000 for 13.0; 0: no driver
  std::string cuda_problem;      // why no device can be used although there seems to be one; empty otherwise
  std::vector<CudaDevice> cuda;  // in the order of CUDA_VISIBLE_DEVICES
};

Devices find_devices();

// What the CUDA half of LibTorch cannot work with: an older driver, an older device. All of it gone is a
// problem; where only some devices are too old they keep their numbers. Part of find_devices().
void leave_out_unusable(Devices& found);
// Empty: it can be used.
std::string problem_of(const CudaDevice& device);

std::string cuda_version(int number);  // "13.0"

// What run.device = "auto", "cpu" or "cuda" means here.
struct DeviceChoice {
  bool cuda = false;
  std::string warning;  // what "auto" does not do, and why
  std::string problem;  // not empty: what was asked for cannot be had
};
DeviceChoice choose_device(std::string_view wanted, const Devices& devices);

// Of the device whose context is this thread's: bytes in use by all processes, of all there are; zeros where
// nothing has used CUDA yet.
struct DeviceMemory {
  uint64_t used = 0, total = 0;
};
DeviceMemory cuda_memory();

// bf16 arithmetic in hardware: from compute capability 8.0 on.
bool has_bf16(const CudaDevice& device);

std::string describe(pl_device device,
                     const Devices& devices);  // "cuda:0 (NVIDIA H100, 80 GB)", "cpu (AMD EPYC, 2 cores)"

}  // namespace pipeline::launch
