#include "core/launch/devices.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>

#include "core/base/fail.hpp"
#include "core/observe/format.hpp"

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
  int (*device_uuid)(char[16], int);  // nullptr: too old a driver
  int (*error_name)(int, const char**);
};

constexpr int kNoDevice = 100;        // CUDA_ERROR_NO_DEVICE
constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;

// The CUDA that LibTorch here is built for, as drivers count, and the oldest device that its wheel has code
// for.
constexpr int kCudaNeeded = PIPELINE_TORCH_CUDA;
constexpr int kOldestMajor = 7, kOldestMinor = 5;
static_assert(kCudaNeeded >= 10000, "LibTorch's variant names no CUDA");

template <class Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// Why the library cannot be loaded, where there is a device for it; empty otherwise.
std::string cannot_load() {
  const char* why = ::dlerror();
  if (!std::filesystem::exists("/dev/nvidiactl")) return {};
  return fmt::format(
      "there is an NVIDIA device (/dev/nvidiactl), but the driver's library cannot be used: {}",
      why != nullptr ? why : "unknown");
}

bool load(CudaDriver& driver) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) bind(library, "cuDeviceGetUuid_v2", driver.device_uuid);
  return library != nullptr && bind(library, "cuInit", driver.init) &&
         bind(library, "cuDriverGetVersion", driver.driver_version) &&
         bind(library, "cuDeviceGetCount", driver.device_count) &&
         bind(library, "cuDeviceGet", driver.device_get) &&
         bind(library, "cuDeviceGetName", driver.device_name) &&
         bind(library, "cuDeviceTotalMem_v2", driver.device_memory) &&
         bind(library, "cuDeviceGetAttribute", driver.device_attribute) &&
         bind(library, "cuGetErrorName", driver.error_name);
}

// A device's UUID as nvidia-smi writes it.
std::string uuid_text(const char (&bytes)[16]) {
  std::string text;
  for (size_t i = 0; i < std::size(bytes); ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(bytes[i]));
  return text;
}

void find_cuda(Devices& found) {
  CudaDriver driver{};
  if (!load(driver)) {
    found.cuda_problem = cannot_load();
    return;
  }
  driver.driver_version(&found.cuda_driver);
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
    if (char uuid[16] = {}; driver.device_uuid != nullptr && driver.device_uuid(uuid, device) == 0)
      info.uuid = uuid_text(uuid);
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

// The number of a line `Name:   123 kB`, in bytes; 0 if there is none.
uint64_t memory_field(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) * 1024;
  return 0;
}

// The control groups that this process is in, each of which may limit its memory.
std::vector<std::filesystem::path> control_groups() {
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::vector<std::filesystem::path> groups{root};
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::/")) continue;  // of version 2
    for (const std::filesystem::path& part : std::filesystem::path(line.substr(4)))
      groups.push_back(groups.back() / part);
  }
  return groups;
}

uint64_t total_host_memory() {
  uint64_t total = memory_field("/proc/meminfo", "MemTotal");
  for (const std::filesystem::path& group : control_groups()) {
    std::ifstream limit(group / "memory.max");
    if (uint64_t bytes = 0; limit >> bytes) total = std::min(total, bytes);  // "max" is no number
  }
  return total;
}

// What a control group leaves to its processes; all there is where it has no limit.
uint64_t available_in(const std::filesystem::path& group) {
  std::ifstream limit_file(group / "memory.max"), used_file(group / "memory.current");
  uint64_t limit = 0, used = 0;
  if (!(limit_file >> limit) || !(used_file >> used)) return UINT64_MAX;  // "max" is no number
  std::ifstream statistics(group / "memory.stat");
  std::string name;
  for (uint64_t bytes = 0; statistics >> name >> bytes;)
    if (name == "file") used -= std::min(used, bytes);  // the page cache gives way
  return limit - std::min(limit, used);
}

unsigned usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
}

constexpr unsigned kNonBlocking = 1;     // CU_STREAM_NON_BLOCKING
constexpr size_t kScalarsOfABlock = 64;  // scalars in a block of pinned memory
constexpr size_t kScalarBytes = sizeof(double);

// The driver API's functions used here; the _v2 suffix is part of their ABI.
struct StreamDriver {
  int (*init)(unsigned);
  int (*device_get)(int*, int);
  int (*retain_primary)(void**, int);
  int (*set_current)(void*);
  int (*stream_create)(void**, unsigned);
  int (*allocate_pinned)(void**, size_t, unsigned);
  int (*free_pinned)(void*);
  int (*copy_to_host)(void*, uint64_t, size_t, void*);
  int (*error_name)(int, const char**);
};

template <class Function>
void require_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr)
    fail(PL_ERROR_UNSUPPORTED, "the NVIDIA driver has no {}: install a newer one", name);
}

const StreamDriver& driver() {
  static const StreamDriver loaded = [] {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw Error(PL_ERROR_UNSUPPORTED, "this machine has no NVIDIA driver (libcuda.so.1)");
    StreamDriver made{};
    require_symbol(library, "cuInit", made.init);
    require_symbol(library, "cuDeviceGet", made.device_get);
    require_symbol(library, "cuDevicePrimaryCtxRetain", made.retain_primary);
    require_symbol(library, "cuCtxSetCurrent", made.set_current);
    require_symbol(library, "cuStreamCreate", made.stream_create);
    require_symbol(library, "cuMemHostAlloc", made.allocate_pinned);
    require_symbol(library, "cuMemFreeHost", made.free_pinned);
    require_symbol(library, "cuMemcpyDtoHAsync_v2", made.copy_to_host);
    require_symbol(library, "cuGetErrorName", made.error_name);
    return made;
  }();
  return loaded;
}

void succeed(int status, const char* call) {
  if (status == 0) return;
  const char* name = nullptr;
  driver().error_name(status, &name);
  fail("{} failed: {}", call, name != nullptr ? name : std::to_string(status));
}

void* make_stream(int32_t index) {
  int device = 0;
  void *context = nullptr, *stream = nullptr;
  succeed(driver().init(0), "cuInit");
  succeed(driver().device_get(&device, index), "cuDeviceGet");
  succeed(driver().retain_primary(&context, device), "cuDevicePrimaryCtxRetain");
  succeed(driver().set_current(context), "cuCtxSetCurrent");
  succeed(driver().stream_create(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}

double to_double(const void* place, uint8_t bits) {
  double wide = 0;
  float narrow = 0;
  if (bits == 64) {
    std::memcpy(&wide, place, sizeof wide);
    return wide;
  }
  std::memcpy(&narrow, place, sizeof narrow);
  return static_cast<double>(narrow);
}

}  // namespace

Devices find_devices() {
  Devices found;
  found.cpu = cpu_name();
  found.cores = usable_cores();
  found.memory = total_host_memory();
  find_cuda(found);
  leave_out_unusable(found);
  return found;
}

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::string problem_of(const CudaDevice& device) {
  if (std::pair(device.major, device.minor) >= std::pair(kOldestMajor, kOldestMinor)) return {};
  return fmt::format(
      "{} has compute capability {}.{}, and LibTorch here is built for {}.{} and later: use another GPU",
      device.name, device.major, device.minor, kOldestMajor, kOldestMinor);
}

void leave_out_unusable(Devices& found) {
  if (found.cuda.empty()) return;
  if (found.cuda_driver < kCudaNeeded) {
    found.cuda_problem = fmt::format(
        "the NVIDIA driver supports CUDA {}, and LibTorch here is built for CUDA {}: install a newer driver",
        cuda_version(found.cuda_driver), cuda_version(kCudaNeeded));
  } else if (std::ranges::none_of(found.cuda, [](const CudaDevice& d) { return problem_of(d).empty(); })) {
    found.cuda_problem = problem_of(found.cuda.front());
  } else {
    return;
  }
  found.cuda.clear();
}

DeviceChoice choose_device(std::string_view wanted, const Devices& devices) {
  DeviceChoice choice{.cuda = wanted != "cpu" && !devices.cuda.empty()};
  if (wanted == "cpu" || choice.cuda) return choice;
  if (wanted == "auto") {
    if (!devices.cuda_problem.empty())
      choice.warning = fmt::format(
          "no CUDA device is used: {}. Using the CPU instead; set run.device = \"cpu\" to silence this "
          "warning",
          devices.cuda_problem);
    return choice;
  }
  if (devices.cuda_problem.empty() && devices.cuda_driver == 0) {
    choice.problem = "there is no NVIDIA driver on this machine: install one, or use \"cpu\"";
    return choice;
  }
  std::string why = devices.cuda_problem;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); why.empty() && visible != nullptr)
    why = fmt::format("CUDA_VISIBLE_DEVICES={} hides them all: unset it, or use \"cpu\"", visible);
  choice.problem =
      "no CUDA device can be used: " + (why.empty() ? "the driver shows none: use \"cpu\"" : why);
  return choice;
}

DeviceMemory cuda_memory() {
  using Ask = int (*)(size_t*, size_t*);
  static const Ask ask = [] {  // asked every step; who asks has a device, so the driver stays loaded
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return driver != nullptr ? reinterpret_cast<Ask>(::dlsym(driver, "cuMemGetInfo_v2")) : nullptr;
  }();
  size_t free = 0, total = 0;
  if (ask == nullptr || ask(&free, &total) != 0) return {};
  return {total - free, total};
}

uint64_t host_memory() { return memory_field("/proc/self/status", "VmRSS"); }

uint64_t peak_host_memory() { return memory_field("/proc/self/status", "VmHWM"); }

bool restart_peak_host_memory() {
  constexpr const char* kResetPeak = "5";  // proc(5)
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << kResetPeak << std::flush);
}

uint64_t available_host_memory() {
  uint64_t available = memory_field("/proc/meminfo", "MemAvailable");
  for (const std::filesystem::path& group : control_groups())
    available = std::min(available, available_in(group));
  return available;
}

bool has_bf16(const CudaDevice& device) { return device.major >= 8; }

std::string describe(pl_device device, const Devices& devices) {
  if (device.type != PL_DEVICE_CUDA)
    return fmt::format("cpu ({}, {} core{})", devices.cpu, devices.cores, devices.cores == 1 ? "" : "s");
  const CudaDevice& cuda = devices.cuda.at(static_cast<size_t>(device.id));
  return fmt::format("cuda:{} ({}, {})", device.id, cuda.name, observe::human_bytes(cuda.memory));
}

pl_stream compute_stream(pl_device device) {
  if (device.type != PL_DEVICE_CUDA) return {PL_STREAM_NONE, 0, nullptr};
  static std::map<int32_t, void*> streams;
  void*& stream = streams[device.id];
  if (stream == nullptr) stream = make_stream(device.id);
  return {PL_STREAM_DEVICE, 0, stream};
}

ScalarReader::ScalarReader(pl_stream stream) : stream_(stream) {}

ScalarReader::~ScalarReader() {
  for (void* block : blocks_) driver().free_pinned(block);
}

ScalarReader::Copy ScalarReader::start(const pl_tensor& scalar) {
  if (free_.empty()) {
    void* block = nullptr;
    succeed(driver().allocate_pinned(&block, kScalarsOfABlock * kScalarBytes, 0), "cuMemHostAlloc");
    blocks_.push_back(block);
    for (size_t i = 0; i < kScalarsOfABlock; ++i)
      free_.push_back(static_cast<std::byte*>(block) + i * kScalarBytes);
  }
  const Copy copy{free_.back(), scalar.dtype.bits};
  const auto address = reinterpret_cast<uint64_t>(scalar.data) + scalar.byte_offset;
  succeed(driver().copy_to_host(copy.place, address, copy.bits / 8u, stream_.handle), "cuMemcpyDtoHAsync");
  free_.pop_back();
  return copy;
}

double ScalarReader::finish(Copy copy) {
  free_.push_back(copy.place);
  return to_double(copy.place, copy.bits);
}

double scalar_on_host(const pl_tensor& scalar) {
  return to_double(static_cast<const std::byte*>(scalar.data) + scalar.byte_offset, scalar.dtype.bits);
}

}  // namespace pipeline::launch
