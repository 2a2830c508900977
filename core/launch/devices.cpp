#include "core/launch/devices.hpp"

#include <fstream>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>

#include "core/observe/format.hpp"
#include "core/observe/memory.hpp"

namespace pipeline::launch {
namespace {

// The driver API functions used here; the _v2 suffix is part of their ABI.
struct CudaDriver {
  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*device_count)(int*);
  int (*device_get)(int*, int);
  int (*device_name)(char*, int, int);
  int (*device_memory)(size_t*, int);
  int (*device_attribute)(int*, int, int);
  int (*error_name)(int, const char**);
};

constexpr int kNoDevice = 100;         // CUDA_ERROR_NO_DEVICE
constexpr int kCapabilityMajor = 75;   // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;

template <class Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool load(CudaDriver& driver) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && bind(library, "cuInit", driver.init) &&
         bind(library, "cuDriverGetVersion", driver.driver_version) &&
         bind(library, "cuDeviceGetCount", driver.device_count) && bind(library, "cuDeviceGet", driver.device_get) &&
         bind(library, "cuDeviceGetName", driver.device_name) && bind(library, "cuDeviceTotalMem_v2", driver.device_memory) &&
         bind(library, "cuDeviceGetAttribute", driver.device_attribute) && bind(library, "cuGetErrorName", driver.error_name);
}

void find_cuda(Devices& found) {
  CudaDriver driver{};
  if (!load(driver)) return;
  int version = 0;
  if (driver.driver_version(&version) == 0) found.cuda_driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  const auto problem = [&](int status, const char* call) {
    const char* name = nullptr;
    driver.error_name(status, &name);
    found.cuda_problem = fmt::format("{} failed: {}", call, name != nullptr ? name : std::to_string(status));
  };
  if (const int status = driver.init(0); status != 0) {
    if (status != kNoDevice) problem(status, "cuInit");
    return;
  }
  int count = 0;
  if (const int status = driver.device_count(&count); status != 0) return problem(status, "cuDeviceGetCount");
  for (int i = 0; i < count; ++i) {
    int device = 0;
    char name[256] = {};
    size_t memory = 0;
    CudaDevice info;
    if (const int status = driver.device_get(&device, i); status != 0) return problem(status, "cuDeviceGet");
    driver.device_name(name, sizeof name, device);
    driver.device_memory(&memory, device);
    driver.device_attribute(&info.major, kCapabilityMajor, device);
    driver.device_attribute(&info.minor, kCapabilityMinor, device);
    info.name = name;
    info.memory = memory;
    found.cuda.push_back(info);
  }
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

unsigned usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
}

}  // namespace

Devices find_devices() {
  Devices found;
  found.cpu = cpu_name();
  found.cores = usable_cores();
  found.memory = observe::total_host_memory();
  find_cuda(found);
  return found;
}

bool has_bf16(const CudaDevice& device) { return device.major >= 8; }

std::string describe(pl_device device, const Devices& devices) {
  if (device.type != PL_DEVICE_CUDA)
    return fmt::format("cpu ({}, {} core{})", devices.cpu, devices.cores, devices.cores == 1 ? "" : "s");
  const CudaDevice& cuda = devices.cuda.at(static_cast<size_t>(device.id));
  return fmt::format("cuda:{} ({}, {})", device.id, cuda.name, observe::human_bytes(cuda.memory));
}

}  // namespace pipeline::launch
