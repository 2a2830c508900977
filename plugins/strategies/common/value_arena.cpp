#include "plugins/strategies/common/value_arena.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <sys/mman.h>

namespace pipeline::strategies {
namespace {

// Zeros. In host memory they come from the system and go back there, whatever the allocator keeps of what it
// has handed out.
at::Tensor mapped_zeros(int64_t count, at::ScalarType dtype, at::Device device) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  if (!device.is_cpu() || count == 0) return at::zeros({count}, options);
  const size_t bytes = static_cast<size_t>(count) * at::elementSize(dtype);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail_with(PL_ERROR_OUT_OF_MEMORY, "the weights: the system gives no ", bytes,
              " bytes: ", std::strerror(errno));
  }
  return at::from_blob(
      memory, {count}, [bytes](void* start) { ::munmap(start, bytes); }, options);
}

}  // namespace

ValueArena::ValueArena(std::shared_ptr<const Layout> layout, at::ScalarType dtype, at::Device device)
    : layout_(std::move(layout)),
      wide_(mapped_zeros(std::max(layout_->narrow_begin(), kChunk), dtype, device)),
      narrow_(mapped_zeros(layout_->length() - layout_->narrow_begin(), at::kBFloat16, device)) {}

at::Tensor ValueArena::part(int64_t begin, int64_t length) const {
  const int64_t narrow_begin = layout_->narrow_begin();
  return begin < narrow_begin || length == 0 ? wide_.narrow(0, std::min(begin, narrow_begin), length)
                                             : narrow_.narrow(0, begin - narrow_begin, length);
}

void* ValueArena::address(size_t index) const {
  const Slot& slot = layout_->slot_of(index);
  return part(slot.offset, slot.padded).mutable_data_ptr();
}

}  // namespace pipeline::strategies
