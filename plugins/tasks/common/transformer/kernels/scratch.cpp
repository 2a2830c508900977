#include "scratch.hpp"

#include <array>
#include <cstdlib>
#include <new>

namespace pipeline::transformer {
namespace {

struct Buffer {
  float* data = nullptr;
  int64_t capacity = 0;
  ~Buffer() { std::free(data); }
};

}  // namespace

float* scratch(Scratch purpose, int64_t count) {
  thread_local std::array<Buffer, static_cast<size_t>(Scratch::kCount)> buffers;
  Buffer& buffer = buffers[static_cast<size_t>(purpose)];
  if (buffer.capacity < count) {
    std::free(buffer.data);
    buffer.capacity = 0;
    const int64_t rounded = (count + 1023) / 1024 * 1024;
    buffer.data = static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(rounded) * sizeof(float)));
    if (buffer.data == nullptr) throw std::bad_alloc();
    buffer.capacity = rounded;
  }
  return buffer.data;
}

}  // namespace pipeline::transformer
