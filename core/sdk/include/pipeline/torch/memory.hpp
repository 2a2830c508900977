// Host memory of tensors.
#pragma once

#include <pipeline/error.hpp>
#include <pipeline/namespace.hpp>

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>

PIPELINE_SDK_BEGIN

// Zeros in host memory. Large ones come from the system, a page with the first write to it, and go back there
// whatever the allocator keeps of what it has handed out: they leave no holes in its heap.
inline at::Tensor mapped_zeros(at::IntArrayRef shape, at::ScalarType dtype) {
  constexpr size_t kSmall = size_t{1} << 16;
  size_t bytes = at::elementSize(dtype);
  for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
  const auto options = at::TensorOptions().dtype(dtype);
  if (bytes < kSmall) return at::zeros(shape, options);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail_with(PL_ERROR_OUT_OF_MEMORY, "the weights: the system gives no ", bytes,
              " bytes: ", std::strerror(errno));
  return at::from_blob(
      memory, shape, [bytes](void* start) { ::munmap(start, bytes); }, options);
}

// LibTorch takes memory by posix_memalign, for which glibc looks for more than it gives out: what a tensor
// leaves free is then too small for the next tensor of the same size, and a run takes up to twice the memory
// that it ever uses at a time. This takes it by malloc, which finds it again.
class HostAllocator final : public c10::Allocator {
 public:
  // From now on, in this process; unless somebody else has replaced LibTorch's. AddressSanitizer keeps that
  // one: it sees only what is beside a block.
  static void install() {
    static HostAllocator own;
    if (!kIsSanitized && c10::GetAllocator(c10::kCPU) == c10::GetDefaultCPUAllocator())
      c10::SetAllocator(c10::kCPU, &own, 1);
  }

  c10::DataPtr allocate(size_t bytes) override {
    void* const data = bytes > 0 ? take(bytes) : nullptr;
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &release, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  static constexpr size_t kAlignment = 64;
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
  static constexpr bool kIsSanitized = __has_feature(address_sanitizer);
#else
  static constexpr bool kIsSanitized = false;
#endif

  // Aligned, and before it the address of the block that it is in.
  static void* take(size_t bytes) {
    void* const block = std::malloc(bytes + sizeof block + kAlignment);
    if (block == nullptr) {
      c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
      TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes,
                  " bytes.");
    }
    const auto end = reinterpret_cast<uintptr_t>(block) + sizeof block + kAlignment - 1;
    auto* const data =
        static_cast<std::byte*>(block) + (end / kAlignment * kAlignment - reinterpret_cast<uintptr_t>(block));
    std::memcpy(data - sizeof block, &block, sizeof block);
    return data;
  }
  static void release(void* data) {
    if (data == nullptr) return;
    c10::profiledCPUMemoryReporter().Delete(data);
    void* block = nullptr;
    std::memcpy(&block, static_cast<std::byte*>(data) - sizeof block, sizeof block);
    std::free(block);
  }
};

PIPELINE_SDK_END
