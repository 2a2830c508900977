#include "core/launch/device_stream.hpp"

#include <cstring>
#include <map>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/base/error.hpp"

namespace pipeline::launch {
namespace {

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
    throw Error(PL_ERROR_UNSUPPORTED, fmt::format("the NVIDIA driver has no {}: install a newer one", name));
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
  throw Error(fmt::format("{} failed: {}", call, name != nullptr ? name : std::to_string(status)));
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
