#include "kernels.hpp"

#include <array>
#include <cstdlib>
#include <new>
#include <string_view>

namespace pipeline::transformer {

extern const Kernels kKernels_avx512, kKernels_avx2, kKernels_sse2;

namespace {

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

struct Buffer {
  float* data = nullptr;
  int64_t capacity = 0;
  ~Buffer() { std::free(data); }
};

}  // namespace

const Kernels* kernels_named(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "avx512") return has_avx512() ? &kKernels_avx512 : nullptr;
  if (wanted == "avx2") return has_avx2() ? &kKernels_avx2 : nullptr;
  return wanted == "sse2" ? &kKernels_sse2 : nullptr;
}

const Kernels& kernels() {
  static const Kernels& widest = []() -> const Kernels& {
    const char* const said = std::getenv("ATEN_CPU_CAPABILITY");
    const std::string_view limit = said ? said : "";
    if (has_avx512() && limit != "avx2" && limit != "default") return kKernels_avx512;
    return has_avx2() && limit != "default" ? kKernels_avx2 : kKernels_sse2;
  }();
  return widest;
}

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
