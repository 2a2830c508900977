#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace pipeline::gpu {

// Compute capability of a CUDA device, 80 for 8.0; 0 where it is unknown. LibTorch's half for the CPU, which
// alone is linked, does not tell; the driver, which it has loaded, does.
int compute_capability(c10::Device device);

// Of a .cu file that has `kernel` for each of float, bfloat16 and float16, the name of that for `type`.
std::string kernel_for(const std::string& kernel, at::ScalarType type);

// What a thread reads and writes at once; and whether x begins at a multiple of it.
inline constexpr int64_t kVectorBytes = 16;
bool is_aligned(const at::Tensor& x);

// The kernels of one .cu file, compiled by NVRTC, which comes with LibTorch, for the device that is there: no
// CUDA compiler is needed to build the project, and no list of devices. Compiled when first used, which takes
// some tenths of a second, and kept while the process lives, which has one device. Safe for any thread.
class Program {
 public:
  // name, source: of the file; what it includes is device.cuh.
  Program(std::string name, std::string source) : name_(std::move(name)), source_(std::move(source)) {}

  // Starts `kernel` on the stream that this thread works on. What NVRTC or the driver reports is thrown, with
  // its text.
  template <class... Arguments>
  void launch(const std::string& kernel, c10::Device device, int64_t blocks, int64_t threads,
              Arguments... arguments) {
    std::array<void*, sizeof...(Arguments)> places{
        const_cast<void*>(static_cast<const void*>(&arguments))...};
    launch_(kernel, device, blocks, threads, places.data());
  }

 private:
  void launch_(const std::string& kernel, c10::Device device, int64_t blocks, int64_t threads,
               void** arguments);
  void* module(c10::Device device);

  std::string name_, source_;
  std::once_flag compiled_;
  void* module_ = nullptr;
};

}  // namespace pipeline::gpu
