// Applies a run's settings to LibTorch, process-wide, and identifies the LibTorch in use.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/namespace.hpp>
#include <pipeline/plugin.hpp>
#include <pipeline/torch/memory.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <string>
#include <string_view>

// The local part of the wheel's version (cu130, cpu), which LibTorch's headers lack. Set by the build.
#ifndef PIPELINE_TORCH_VARIANT
#define PIPELINE_TORCH_VARIANT "unknown"
#endif

PIPELINE_SDK_BEGIN

inline std::string_view torch_runtime_tag() {
#if defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI == 0
  return "torch " TORCH_VERSION "+" PIPELINE_TORCH_VARIANT " old-cxx-abi";
#else
  return "torch " TORCH_VERSION "+" PIPELINE_TORCH_VARIANT " cxx11-abi";
#endif
}

inline const bool kTorchTagInstalled = (runtime_tag = torch_runtime_tag, true);

// A stream that LibTorch did not create has its handle as its id.
inline c10::Stream to_torch(pl_stream stream, c10::Device device) {
  return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(stream.handle));
}

// Path of another of LibTorch's libraries: they are in one folder.
inline std::string libtorch_path(const char* name) {
  Dl_info cpu_half{};
  dladdr(reinterpret_cast<const void*>(&at::globalContext), &cpu_half);
  const std::string path(cpu_half.dli_fname == nullptr ? "" : cpu_half.dli_fname);
  return path.substr(0, path.rfind('/') + 1) + name;
}

// Makes the run's device and stream usable and current in this thread, the main one, or throws. Plugins
// link only the CPU half of LibTorch; the CUDA half registers itself when loaded, which must happen before
// the process first uses CUDA.
inline c10::Device open_device(const pl_run_info& run) {
  const pl_device device = run.device;
  const c10::Device result = to_torch(device);
  if (!result.is_cuda()) return result;
  if (dlopen(libtorch_path("libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    fail_with(PL_ERROR_UNSUPPORTED, name_of(device),
              ": the CUDA half of LibTorch cannot be loaded: ", dlerror());
  if (!at::globalContext().hasCUDA())
    fail_with(PL_ERROR_UNSUPPORTED, name_of(device), ": LibTorch sees no CUDA device");
  // All plugins of the process share device and stream, and the threads of the backward pass follow them.
  // With another device current, each use would create a context there.
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  cuda.setDevice(result);
  if (run.stream.kind == PL_STREAM_DEVICE) cuda.exchangeStream(to_torch(run.stream, result));
  return result;
}

// Called by every plugin that computes with LibTorch; the settings are process-wide.
inline void apply_run_settings(const Context& context) {
  HostAllocator::install();
  const auto threads = static_cast<int>(context.run().threads);
  if (threads > 0) {
    at::set_num_threads(threads);
    // Can be set once, before the first use; another plugin of this process may have done so.
    if (at::get_num_interop_threads() != 1) {
      try {
        at::set_num_interop_threads(1);
      } catch (const c10::Error& error) {
        context.debug("LibTorch keeps ", at::get_num_interop_threads(),
                      " inter-op threads: ", error.what_without_backtrace());
      }
    }
  }
  at::Context& torch = at::globalContext();
  torch.setDeterministicAlgorithms(context.reproducible(), /*warn_only=*/false);
  torch.setDeterministicCuDNN(context.reproducible());
  torch.setBenchmarkCuDNN(!context.reproducible());
  torch.setDeterministicFillUninitializedMemory(false);  // it would write all memory twice, for nothing
  // Add partial products in float32, too: cuBLAS splits products with few results, such as gradients of
  // weights, along the summed dimension.
  torch.setAllowBF16ReductionCuBLAS(false);
  torch.setAllowFP16ReductionCuBLAS(false);
  // Now and then a run had other bits where threads of the loader were the first to call MKL's vector
  // functions, several at the same time. That has not happened since this thread calls one before them.
  at::sin(at::zeros({16}));
  // cuDNN plans attention anew for every shape, which takes a second if every batch has a new one.
  torch.setSDPUseCuDNN(false);
}

// The stream that this thread works on.
inline pl_stream current_stream(c10::Device device) {
  if (device.is_cpu()) return kNoStream;
  return {PL_STREAM_DEVICE, 0, c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle()};
}

// During its lifetime this thread works on the run's stream, after the work already on `other`; no effect
// on the CPU. The main thread is on the run's stream anyway: see open_device().
class RunStreamScope {
 public:
  RunStreamScope(const pl_run_info& run, pl_stream other) {
    if (run.stream.kind != PL_STREAM_DEVICE) return;
    const c10::Device device = to_torch(run.device);
    const c10::Stream stream = to_torch(run.stream, device);
    guard_.emplace(stream);
    if (other.kind != PL_STREAM_DEVICE || other.handle == run.stream.handle) return;
    c10::Event done(device.type());
    done.record(to_torch(other, device));
    done.block(stream);
  }

 private:
  std::optional<c10::StreamGuard> guard_;
};

PIPELINE_SDK_END
