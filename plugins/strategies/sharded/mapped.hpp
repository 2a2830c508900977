#pragma once

#include <ATen/ATen.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <pipeline/error.hpp>

namespace pipeline::strategies {

// Zeros. In host memory they come from the system and go back there, whatever the allocator keeps of what it
// has handed out.
inline at::Tensor mapped_zeros(int64_t count, at::ScalarType dtype, at::Device device) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  if (!device.is_cpu() || count == 0) return at::zeros({count}, options);
  const size_t bytes = static_cast<size_t>(count) * at::elementSize(dtype);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail_with(PL_ERROR_OUT_OF_MEMORY, "the weights: the system gives no ", bytes,
              " bytes: ", std::strerror(errno));
  }
  return at::from_blob(
      memory, {count}, [bytes](void* start) { ::munmap(start, bytes); }, options);
}

}  // namespace pipeline::strategies
