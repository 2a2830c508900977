#include "kernels.hpp"

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

}  // namespace

const Kernels* kernels_named(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "avx512") return has_avx512() ? &kKernels_avx512 : nullptr;
  if (wanted == "avx2") return has_avx2() ? &kKernels_avx2 : nullptr;
  return wanted == "sse2" ? &kKernels_sse2 : nullptr;
}

const Kernels& kernels() {
  static const Kernels& widest = has_avx512() ? kKernels_avx512 : has_avx2() ? kKernels_avx2 : kKernels_sse2;
  return widest;
}

}  // namespace pipeline::transformer
