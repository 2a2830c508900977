#pragma once

#include <pipeline/namespace.hpp>

#include <ATen/core/Tensor.h>

// As <ATen/autocast_mode.h> declares them, which includes every operator of ATen: a source file would take
// half as long again to compile. tests/sdk/precision_test.cpp includes both.
namespace at::autocast {
TORCH_API bool is_autocast_enabled(at::DeviceType device_type);
TORCH_API void set_autocast_enabled(at::DeviceType device_type, bool enabled);
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType device_type);
TORCH_API void set_autocast_dtype(at::DeviceType device_type, at::ScalarType dtype);
TORCH_API int increment_nesting();
TORCH_API int decrement_nesting();
TORCH_API void clear_cache();
}  // namespace at::autocast

PIPELINE_SDK_BEGIN

// Which operations run in which dtype: with autocast, matrix products in `dtype`, sums and losses in
// float32.
struct Autocast {
  c10::DeviceType device = c10::kCPU;
  bool enabled = false;
  at::ScalarType dtype = at::kBFloat16;

  static Autocast current(c10::DeviceType device) {
    return {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
  }
  static Autocast for_compute(c10::DeviceType device, at::ScalarType compute) {
    const bool narrow = compute == at::kBFloat16 || compute == at::kHalf;
    return {device, narrow, narrow ? compute : at::kBFloat16};
  }
};

// Applies `wanted` to this thread for its lifetime.
class AutocastScope {
 public:
  explicit AutocastScope(const Autocast& wanted) : outer_(Autocast::current(wanted.device)) {
    set(wanted);
    at::autocast::increment_nesting();
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set(outer_);
  }

 private:
  static void set(const Autocast& state) {
    at::autocast::set_autocast_enabled(state.device, state.enabled);
    at::autocast::set_autocast_dtype(state.device, state.dtype);
  }

  Autocast outer_;
};

PIPELINE_SDK_END
