#include "plugins/strategies/common/extensions.hpp"

#include <c10/core/CachingDeviceAllocator.h>

#include <pipeline/guard.hpp>
#include <pipeline/torch/profiler.hpp>
#include <pipeline/torch/tensor.hpp>

#include "plugins/strategies/common/peak_flops.hpp"

namespace pipeline::strategies {
namespace {

pl_error* empty_cache(pl_strategy*, pl_device where) {
  return guard([&] {
    const c10::Device device = to_torch(where);
    if (!device.is_cpu()) c10::getDeviceAllocator(device.type())->emptyCache();
  });
}

constexpr pl_device_cache kDeviceCache{
    .struct_size = sizeof(pl_device_cache), .reserved = 0, .empty = empty_cache};

}  // namespace

const void* extension_named(std::string_view id) {
  if (id == PL_EXTENSION_PEAK_FLOPS) return peak_flops_extension();
  if (id == PL_EXTENSION_PROFILER) return profiler_extension();
  return id == PL_EXTENSION_DEVICE_CACHE ? &kDeviceCache : nullptr;
}

}  // namespace pipeline::strategies
