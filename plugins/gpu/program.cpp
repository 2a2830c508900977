#include "plugins/gpu/program.hpp"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <pipeline/torch/runtime.hpp>

namespace pipeline::gpu {

extern const char* const kDeviceHeader;  // the text of device.cuh

namespace {

// Functions of https://docs.nvidia.com/cuda/nvrtc and https://docs.nvidia.com/cuda/cuda-driver-api, as far as
// they are used here. Both are found through the library by which LibTorch itself uses them.
struct Library {
  using Handle = void*;
  int (*nvrtcCreateProgram)(Handle*, const char* source, const char* name, int headers,
                            const char* const* header_sources, const char* const* header_names);
  int (*nvrtcCompileProgram)(Handle, int options, const char* const*);
  int (*nvrtcGetProgramLogSize)(Handle, size_t*);
  int (*nvrtcGetProgramLog)(Handle, char*);
  int (*nvrtcGetCUBINSize)(Handle, size_t*);
  int (*nvrtcGetCUBIN)(Handle, char*);
  int (*nvrtcDestroyProgram)(Handle*);
  const char* (*nvrtcGetErrorString)(int);
  int (*cuCtxGetCurrent)(Handle*);
  int (*cuCtxSetCurrent)(Handle);
  int (*cuDevicePrimaryCtxRetain)(Handle*, int device);
  int (*cuModuleLoadData)(Handle*, const void* image);
  int (*cuModuleGetFunction)(Handle*, Handle module, const char* name);
  int (*cuLaunchKernel)(Handle, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                        unsigned threads_y, unsigned threads_z, unsigned shared_bytes, Handle stream,
                        void** arguments, void** extra);
  int (*cuGetErrorName)(int, const char**);

  Library() {
    constexpr const char* kName = "libcaffe2_nvrtc.so";
    void* const library = dlopen(libtorch_path(kName).c_str(), RTLD_NOW | RTLD_LOCAL);
    TORCH_CHECK(library != nullptr, kName, ", by which our kernels use NVRTC, cannot be loaded: ", dlerror(),
                ". It comes with LibTorch's CUDA half: run scripts/setup/torch again, or install the torch "
                "of that device.");
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      TORCH_CHECK(function != nullptr, kName, " has no ", name);
    };
#define FIND(function) find(function, #function)
    FIND(nvrtcCreateProgram);
    FIND(nvrtcCompileProgram);
    FIND(nvrtcGetProgramLogSize);
    FIND(nvrtcGetProgramLog);
    FIND(nvrtcGetCUBINSize);
    FIND(nvrtcGetCUBIN);
    FIND(nvrtcDestroyProgram);
    FIND(nvrtcGetErrorString);
    FIND(cuCtxGetCurrent);
    FIND(cuCtxSetCurrent);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuModuleLoadData);
    FIND(cuModuleGetFunction);
    FIND(cuLaunchKernel);
    FIND(cuGetErrorName);
#undef FIND
  }

  void check_compiler(int status, const std::string& what) const {
    TORCH_CHECK(status == 0, what, ": NVRTC says ", nvrtcGetErrorString(status));
  }
  void check_driver(int status, const std::string& what) const {
    const char* name = "an unknown error";
    if (status != 0) cuGetErrorName(status, &name);
    constexpr int kOutOfMemory = 2;
    TORCH_CHECK_WITH(OutOfMemoryError, status != kOutOfMemory, what, ": CUDA out of memory, says the driver");
    TORCH_CHECK(status == 0, what, ": the CUDA driver says ", name);
  }
};

const Library& library() {
  static const Library one;
  return one;
}

// A thread of the backward pass has LibTorch's context only once it has called the CUDA runtime.
void enter_context(c10::Device device) {
  const Library& by = library();
  Library::Handle context = nullptr;
  by.check_driver(by.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  if (context != nullptr) return;
  by.check_driver(by.cuDevicePrimaryCtxRetain(&context, device.index()), "cuDevicePrimaryCtxRetain");
  by.check_driver(by.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

// Code for the device.
std::string compiled(const std::string& name, const std::string& source, const std::string& architecture) {
  const Library& by = library();
  Library::Handle program = nullptr;
  const char *const header = kDeviceHeader, *const header_name = "device.cuh";
  by.check_compiler(by.nvrtcCreateProgram(&program, source.c_str(), name.c_str(), 1, &header, &header_name),
                    name);
  const std::string for_device = "--gpu-architecture=" + architecture;
  const std::array<const char*, 2> options{for_device.c_str(), "--std=c++17"};
  const int status = by.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  if (status != 0) {
    size_t size = 0;
    by.nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    by.nvrtcGetProgramLog(program, log.data());
    by.nvrtcDestroyProgram(&program);
    TORCH_CHECK(false, name, ": NVRTC says ", by.nvrtcGetErrorString(status), " for ", architecture, ":\n",
                log.c_str());
  }
  size_t size = 0;
  by.check_compiler(by.nvrtcGetCUBINSize(program, &size), name);
  std::string code(size, '\0');
  by.check_compiler(by.nvrtcGetCUBIN(program, code.data()), name);
  by.nvrtcDestroyProgram(&program);
  return code;
}

}  // namespace

int compute_capability(c10::Device device) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
  static const auto ask = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<int (*)(int*, int, int)>(driver ? dlsym(driver, "cuDeviceGetAttribute")
                                                            : nullptr);
  }();
  int major = 0, minor = 0;
  const bool known =
      ask != nullptr && ask(&major, kMajor, device.index()) == 0 && ask(&minor, kMinor, device.index()) == 0;
  return known ? 10 * major + minor : 0;
}

std::string kernel_for(const std::string& kernel, at::ScalarType type) {
  return kernel + (type == at::kBFloat16 ? "_bfloat16" : type == at::kHalf ? "_float16" : "_float");
}

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % kVectorBytes == 0;
}

void* Program::module(c10::Device device) {
  std::call_once(compiled_, [&] {
    const std::string code = compiled(name_, source_, "sm_" + std::to_string(compute_capability(device)));
    library().check_driver(library().cuModuleLoadData(&module_, code.data()), name_);
  });
  return module_;
}

void Program::launch_(const std::string& kernel, c10::Device device, int64_t blocks, int64_t threads,
                      void** arguments) {
  enter_context(device);
  const Library& by = library();
  Library::Handle function = nullptr;
  by.check_driver(by.cuModuleGetFunction(&function, module(device), kernel.c_str()), kernel);
  void* const stream = current_stream(device).handle;
  by.check_driver(by.cuLaunchKernel(function, static_cast<unsigned>(blocks), 1, 1,
                                    static_cast<unsigned>(threads), 1, 1, 0, stream, arguments, nullptr),
                  kernel);
}

}  // namespace pipeline::gpu
