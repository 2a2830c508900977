// Stands for libcaffe2_nvrtc.so, through which plugins compile and start kernels of their own: what it
// "compiles" are our .cu files as they were compiled for the CPU, into this library.
#include <c10/util/Half.h>

#include <map>
#include <string>

#include "cuda_on_host.hpp"

namespace on_host {

#pragma GCC push_options
#pragma GCC optimize("O2")  // a test runs them over many logits
#include "plugins/strategies/common/rules/adamw.cu"
#include "transformer/cuda/column_sum.cu"
#include "transformer/cuda/cross_entropy.cu"
#include "transformer/cuda/decode.cu"
#include "transformer/cuda/gated_unit.cu"
#include "transformer/cuda/gelu.cu"
#include "transformer/cuda/heads.cu"
#include "transformer/cuda/layer_norm.cu"
#pragma GCC pop_options

float widened(float16 x) { return c10::detail::fp16_ieee_to_fp32_value(x.bits); }
template <>
float16 rounded<float16>(float x) {
  return {c10::detail::fp16_ieee_from_fp32_value(x)};
}

}  // namespace on_host

namespace {

using Kernel = std::function<void(void** arguments)>;

template <class... Arguments, size_t... kIndices>
Kernel taking(void (*kernel)(Arguments...), std::index_sequence<kIndices...>) {
  return [kernel](void** arguments) { kernel(*static_cast<Arguments*>(arguments[kIndices])...); };
}
template <class... Arguments>
Kernel kernel(void (*function)(Arguments...)) {
  return taking(function, std::index_sequence_for<Arguments...>());
}

#define KERNEL(name) \
  { #name, kernel(on_host::name) }
#define KERNELS(name) KERNEL(name##_float), KERNEL(name##_bfloat16), KERNEL(name##_float16)
const std::map<std::string, Kernel, std::less<>> kKernels{
    KERNELS(adamw),          KERNELS(column_sum),          KERNELS(cross_entropy), KERNELS(decode),
    KERNELS(gated_unit),     KERNELS(gated_unit_backward), KERNELS(gelu_backward), KERNELS(heads),
    KERNELS(heads_backward), KERNELS(layer_norm_backward)};

constexpr int kNotFound = 500;
char some_module;

}  // namespace

extern "C" {

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int nvrtcCreateProgram(void**, const char*, const char*, int, const char* const*,
                                const char* const*) {
  return 0;
}
EXPORTED int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
EXPORTED int nvrtcGetProgramLogSize(void*, size_t* size) { return *size = 0, 0; }
EXPORTED int nvrtcGetProgramLog(void*, char*) { return 0; }
EXPORTED int nvrtcGetCUBINSize(void*, size_t* size) { return *size = 0, 0; }
EXPORTED int nvrtcGetCUBIN(void*, char*) { return 0; }
EXPORTED int nvrtcDestroyProgram(void**) { return 0; }
EXPORTED const char* nvrtcGetErrorString(int) { return "FAKE_ERROR"; }

int cuCtxGetCurrent(void**);  // of the tests' driver

EXPORTED int cuModuleLoadData(void** module, const void*) { return *module = &some_module, 0; }
EXPORTED int cuModuleGetFunction(const void** function, void* module, const char* name) {
  const auto found = kKernels.find(name);
  if (module != &some_module || found == kKernels.end()) return kNotFound;
  return *function = &found->second, 0;
}
EXPORTED int cuLaunchKernel(const void* function, unsigned blocks, unsigned, unsigned, unsigned threads,
                            unsigned, unsigned, unsigned, void*, void** arguments, void**) {
  constexpr int kMost = 1024;
  void* context = nullptr;
  cuCtxGetCurrent(&context);
  if (context == nullptr || blocks == 0 || threads == 0 || threads > kMost) return 1;
  pipeline::emulator::run_blocks(blocks, threads,
                                 [&] { (*static_cast<const Kernel*>(function))(arguments); });
  return 0;
}
}
