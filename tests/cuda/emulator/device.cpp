// The device itself: its memory, streams, events and generator, as LibTorch asks for them.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "device.hpp"

// Functions of the driver that tests have (tests/c_plugins/fake_cuda.c).
extern "C" {
int fake_cuda_take(size_t bytes);  // in all; not 0: there is not as much
void fake_cuda_keep(size_t bytes);
}

namespace pipeline::emulator {
namespace {

const c10::Device kDevice{c10::kCUDA, 0};

struct Taken {
  std::mutex mutex;
  size_t bytes = 0;
};
Taken& taken() {
  static auto& one = *new Taken;
  return one;
}

class Memory : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, kDevice};
    take(bytes);
    const size_t all = (sizeof(Block) + bytes + kBehind + 63) / 64 * 64;
    auto* const block = static_cast<Block*>(std::aligned_alloc(sizeof(Block), all));
    block->bytes = bytes;
    // NaN in every type of floats: what was not written must not be read.
    std::memset(block + 1, kUnwritten, bytes + kBehind);
    return {block + 1, block, &release, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    const std::lock_guard lock(taken().mutex);
    fake_cuda_keep(taken().bytes);
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}

 private:
  static constexpr unsigned char kUnwritten = 0xff;
  static constexpr size_t kBehind = 64;  // bytes behind a tensor's, which stay as they are
  struct alignas(64) Block {
    size_t bytes;
  };
  static void release(void* memory) {
    const auto* const block = static_cast<const Block*>(memory);
    const auto* const behind = reinterpret_cast<const unsigned char*>(block + 1) + block->bytes;
    if (std::count(behind, behind + kBehind, kUnwritten) != kBehind) {
      std::fprintf(stderr, "emulated CUDA device: something was written behind a tensor of %zu bytes\n",
                   block->bytes);
      std::abort();
    }
    give_back(block->bytes);
    std::free(memory);
  }
};

// Host memory that copies need not wait for.
class Pinned : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const memory = bytes == 0 ? nullptr : std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    const std::lock_guard lock(mutex());
    if (memory != nullptr) blocks()[memory] = bytes;
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
  static bool holds(const void* place) {
    const std::lock_guard lock(mutex());
    const auto next = blocks().upper_bound(const_cast<void*>(place));
    if (next == blocks().begin()) return false;
    const auto& [begin, bytes] = *std::prev(next);
    return place < static_cast<char*>(begin) + bytes;
  }

 private:
  static void release(void* memory) {
    {
      const std::lock_guard lock(mutex());
      blocks().erase(memory);
    }
    std::free(memory);
  }
  static std::map<void*, size_t>& blocks() {
    static auto& all = *new std::map<void*, size_t>;
    return all;
  }
  static std::mutex& mutex() {
    static auto& one = *new std::mutex;
    return one;
  }
};

Memory& memory() {
  static auto& one = *new Memory;
  return one;
}
Pinned& pinned() {
  static auto& one = *new Pinned;
  return one;
}

thread_local c10::StreamId current_stream = 0;

// Work is done when it is asked for, so that streams are but numbers and events are nothing.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() <= 0, "CUDA error: invalid device ordinal ", device);
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return stream(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    static std::atomic<c10::StreamId> next{1};
    return stream(next++);
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream(std::exchange(current_stream, to.id()));
  }
  void* getStreamNativeHandle(const c10::Stream of) const override {
    return reinterpret_cast<void*>(of.id());
  }
  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    static char something;
    *event = &something;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeEvent(void*) const override { waited("cudaEventSynchronize"); }
  void synchronizeStream(const c10::Stream&) const override { waited("cudaStreamSynchronize"); }
  void synchronizeDevice(c10::DeviceIndex) const override { waited("cudaDeviceSynchronize"); }

 private:
  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
};

}  // namespace

at::Generator& default_generator() {
  static auto& one = *new at::Generator(at::make_generator<at::CPUGeneratorImpl>());
  return one;
}

bool is_pinned(const void* place) { return Pinned::holds(place); }

void take(size_t bytes) {
  const std::lock_guard lock(taken().mutex);
  // In the words of LibTorch's own allocator.
  TORCH_CHECK_WITH(OutOfMemoryError, fake_cuda_take(taken().bytes + bytes) == 0,
                   "CUDA out of memory. Tried to allocate ", bytes >> 20, " MiB. ", taken().bytes >> 20,
                   " MiB are allocated by PyTorch.");
  taken().bytes += bytes;
}

void give_back(size_t bytes) {
  const std::lock_guard lock(taken().mutex);
  taken().bytes -= bytes;
}

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace pipeline::emulator

namespace at {

// LibTorch looks for this name.
struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override { c10::SetAllocator(c10::kCUDA, &pipeline::emulator::memory()); }
  const Generator& getDefaultGenerator(DeviceIndex) const override {
    return pipeline::emulator::default_generator();
  }
  Generator getNewGenerator(DeviceIndex) const override { return make_generator<CPUGeneratorImpl>(); }
  bool isPinnedPtr(const void* place) const override { return pipeline::emulator::is_pinned(place); }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  int getNumGPUs() const override { return 1; }
  Allocator* getPinnedMemoryAllocator() const override { return &pipeline::emulator::pinned(); }
  Allocator* getCUDADeviceAllocator() const override { return &pipeline::emulator::memory(); }
  void deviceSynchronize(DeviceIndex) const override { pipeline::emulator::waited("cudaDeviceSynchronize"); }
};

REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at

namespace {
const bool kAllocatorIsSet = [] {
  c10::SetAllocator(c10::kCUDA, &pipeline::emulator::memory());
  return true;
}();
}  // namespace
