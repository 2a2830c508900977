#include "plugins/strategies/common/extensions.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/remainder.h>
#include <pipeline/guard.hpp>
#include <pipeline/torch/profiler.hpp>
#include <pipeline/torch/runtime.hpp>
#include <pipeline/torch/tensor.hpp>

#include "plugins/parallel/parallel.hpp"

namespace pipeline::strategies {
namespace {

constexpr int kTries = 5;

// Seconds of one product of `count` in a row; on CUDA reading an element waits for the device.
double time_products(const at::Tensor& a, at::Tensor& out, int count) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) at::mm_out(out, a, a);
  out[0][0].item();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / count;
}

// Numbers of many values from -1 to 1: where all are alike a device draws less power and comes out too fast.
// Not random: the run's generators stay as they are.
at::Tensor pattern(int64_t size, const at::TensorOptions& options) {
  const at::Tensor numbers = at::arange(size, options.dtype(at::kInt));
  const at::Tensor mixed = at::remainder(numbers.unsqueeze(1) * 7919 + numbers * 104729, 251);
  return mixed.sub_(125).to(at::kFloat).div_(125).to(options.dtype());
}

// What the CPU's multiply-add units do with operands in registers: our own kernels beat LibTorch's products
// on some CPUs, and no product beats this. GCC's vector types; the instruction set is chosen when the program
// runs. By name, and in registers: below -O2 the compiler neither fuses the two nor keeps an array there, and
// would measure half the peak.
constexpr int64_t kRounds = 1 << 20;
constexpr int kAccumulators = 10;  // more than latency times throughput of any x86-64 CPU

#define MULTIPLY_ADD(sum) "vfmadd213ps %[by], %[by], %[" #sum "]\n\t"
#define MULTIPLY_ADDS(name, isa, bytes)                                                                   \
  __attribute__((target(isa))) float name(float factor) {                                                 \
    typedef float Vec __attribute__((vector_size(bytes)));                                                \
    const Vec by = Vec{} + factor;                                                                        \
    Vec a = by, b = by, c = by, d = by, e = by, f = by, g = by, h = by, i = by, j = by;                   \
    for (int64_t round = 0; round < kRounds; ++round)                                                     \
      asm(MULTIPLY_ADD(a) MULTIPLY_ADD(b) MULTIPLY_ADD(c) MULTIPLY_ADD(d) MULTIPLY_ADD(e) MULTIPLY_ADD(f) \
              MULTIPLY_ADD(g) MULTIPLY_ADD(h) MULTIPLY_ADD(i) MULTIPLY_ADD(j)                             \
          : [a] "+v"(a), [b] "+v"(b), [c] "+v"(c), [d] "+v"(d), [e] "+v"(e), [f] "+v"(f), [g] "+v"(g),    \
            [h] "+v"(h), [i] "+v"(i), [j] "+v"(j)                                                         \
          : [by] "v"(by));                                                                                \
    return (a + b + c + d + e + f + g + h + i + j)[0];                                                    \
  }
MULTIPLY_ADDS(multiply_add_256, "avx2,fma", 32)
MULTIPLY_ADDS(multiply_add_512, "avx512f", 64)
#undef MULTIPLY_ADDS
#undef MULTIPLY_ADD

// FLOPs a second of all the run's threads together; 0 where there are no such instructions.
double cpu_peak(int threads) {
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return 0;
  volatile float factor = 0.5f;  // or the compiler computes sums that are constants
  const auto work = [&](int64_t /*thread*/) {
    volatile float keep = wide ? multiply_add_512(factor) : multiply_add_256(factor);
    static_cast<void>(keep);
  };
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    parallel::tasks(threads, work);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best,
                    2.0 * (wide ? 16 : 8) * kAccumulators * static_cast<double>(kRounds) * threads / seconds);
  }
  return best;
}

}  // namespace

const void* extension_named(std::string_view id) {
  static const pl_runtime runtime = [] {
    pl_runtime all = *runtime_extension();
    all.flags = PL_RUNTIME_SAME_ON_ANY_THREADS;
    all.peak_flops = measure_peak_flops;
    return all;
  }();
  return id == PL_EXTENSION_RUNTIME ? &runtime : nullptr;
}

pl_error* measure_peak_flops(const pl_host*, const pl_run_info* info, double* out) {
  return guard([&] {
    const c10::Device device = to_torch(info->device);
    const int64_t size = device.is_cuda() ? 8192 : 1024;
    const int in_a_row = device.is_cuda() ? 10 : 1;
    const at::Tensor a =
        pattern(size, at::TensorOptions().device(device).dtype(to_torch(info->compute_dtype)));
    // The first one also makes the libraries' buffers, which a forecast of memory would take for a step's.
    at::Tensor product = at::mm(a, a);
    if (device.is_cpu() && a.scalar_type() == at::kFloat && (*out = cpu_peak(at::get_num_threads())) > 0)
      return;
    double best = time_products(a, product, 1);
    for (int i = 0; i < kTries; ++i) best = std::min(best, time_products(a, product, in_a_row));
    *out = 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size) / best;
  });
}

}  // namespace pipeline::strategies
