// The stream that all device work of this process is ordered by, and scalars that are read from it without
// waiting. Through the CUDA driver directly, as devices.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/abi/pipeline.h"

namespace pipeline::launch {

// PL_STREAM_NONE for the CPU. For CUDA the one stream of this process and device: made at the first call, in
// the device's primary context, which LibTorch and NCCL use as well, and there until the process ends. It is
// a non-blocking stream: nothing that somebody puts on the legacy default stream waits for it, nor it for
// that. [main] Throws Error.
pl_stream compute_stream(pl_device device);

// Copies of float32 and float64 scalars on their way to the host.
class ScalarReader {
 public:
  explicit ScalarReader(pl_stream stream);
  ~ScalarReader();
  ScalarReader(const ScalarReader&) = delete;
  ScalarReader& operator=(const ScalarReader&) = delete;

  // A place in pinned memory.
  struct Copy {
    void* place = nullptr;
    uint8_t bits = 64;
  };
  // Puts the copy on the stream; the scalar's memory may be given out again in the stream's order. Throws
  // Error.
  Copy start(const pl_tensor& scalar);
  // What was copied; the caller knows that the stream is past it. Frees the place.
  double finish(Copy copy);

 private:
  pl_stream stream_;
  std::vector<void*> blocks_, free_;
};

// A scalar in memory of the host.
double scalar_on_host(const pl_tensor& scalar);

}  // namespace pipeline::launch
