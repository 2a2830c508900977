// The stream that orders all device work of this process, and scalars read from it without waiting. Uses
// the CUDA driver directly, like devices.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "core/abi/pipeline.h"

namespace pipeline::launch {

// PL_STREAM_NONE for the CPU. For CUDA, the only stream of this process and device: created at the first
// call, in the device's primary context, which LibTorch and NCCL use as well, and valid until the process
// ends. It is non-blocking: it does not wait for work on the legacy default stream, nor that for it. [main]
// Throws Error.
pl_stream compute_stream(pl_device device);

// Copies float32 and float64 scalars to the host.
class ScalarReader {
 public:
  explicit ScalarReader(pl_stream stream);
  ~ScalarReader();
  ScalarReader(const ScalarReader&) = delete;
  ScalarReader& operator=(const ScalarReader&) = delete;

  // A slot in pinned memory.
  struct Copy {
    void* place = nullptr;
    uint8_t bits = 64;
  };
  // Enqueues the copy on the stream; the scalar's memory may be reused in the stream's order. Throws Error.
  Copy start(const pl_tensor& scalar);
  // Returns the copied value and frees the slot. REQUIRES: the stream has passed the copy.
  double finish(Copy copy);

 private:
  pl_stream stream_;
  std::vector<void*> blocks_, free_;
};

// The value of a scalar in host memory.
double scalar_on_host(const pl_tensor& scalar);

}  // namespace pipeline::launch
