#include "backends/nccl/cuda_half.hpp"

#include <pipeline/torch/runtime.hpp>

#include <dlfcn.h>

#include <filesystem>

namespace pipeline::backends::nccl {
namespace {

constexpr int kCudaOfTheWheel = 13000;  // PIPELINE_TORCH_VARIANT, as drivers count

std::string cuda_version(int number) { return concat(number / 1000, '.', number % 1000 / 10); }

template <class Function>
Function symbol(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) fail("open: ", name, " is missing: ", ::dlerror());
  return reinterpret_cast<Function>(found);
}

// The driver is asked itself: LibTorch says no more than that there is no device.
void check_driver(pl_device device) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", name_of(device),
              ": this machine has no NVIDIA driver (libcuda.so.1): nccl needs one and a GPU; use gloo or shm "
              "on CPUs, or backend.plugin = \"auto\"");
  }
  int version = 0, count = 0;
  symbol<int (*)(int*)>(driver, "cuDriverGetVersion")(&version);
  if (version < kCudaOfTheWheel) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", name_of(device),
              ": the NVIDIA driver of this machine supports CUDA ", cuda_version(version),
              ", LibTorch and NCCL here are built for CUDA ", cuda_version(kCudaOfTheWheel),
              ": install a newer driver");
  }
  const int status = symbol<int (*)(unsigned)>(driver, "cuInit")(0);
  if (status == 0) symbol<int (*)(int*)>(driver, "cuDeviceGetCount")(&count);
  if (device.id >= count) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", name_of(device), ": the NVIDIA driver shows ", count,
              " devices here (status ", status,
              "): look at nvidia-smi, and at CUDA_VISIBLE_DEVICES, which hides devices");
  }
}

// Beside the folder of plugins, since it is none.
std::string library_file() {
  Dl_info own{};
  ::dladdr(reinterpret_cast<const void*>(&load_cuda_half), &own);
  const std::filesystem::path plugin(own.dli_fname == nullptr ? "" : own.dli_fname);
  return (plugin.parent_path() / ".." / ".." / "pipeline_nccl.so").lexically_normal().string();
}

}  // namespace

OpenGroup load_cuda_half(const pl_run_info& run) {
  const pl_device device = run.device;
  if (device.type != PL_DEVICE_CUDA) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: it works in CUDA device memory only, ", name_of(device),
              " was asked for: use gloo or shm, or backend.plugin = \"auto\"");
  }
  check_driver(device);
  try {
    open_device(run);
  } catch (const Error& e) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", e.what(),
              ". scripts/setup/torch unpacks it on a machine with a GPU");
  }
  const std::string file = library_file();
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) fail_with(PL_ERROR_UNSUPPORTED, "open: ", ::dlerror());
  return symbol<OpenGroup>(library, kOpenGroup);
}

}  // namespace pipeline::backends::nccl
