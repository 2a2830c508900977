#include "to_device.hpp"

#include <ATen/Functions.h>

namespace pipeline::transformer {

at::Tensor to_device(const at::Tensor& host, at::Device device) {
  if (device.is_cuda() && host.is_cpu()) return host.pin_memory().to(device, /*non_blocking=*/true);
  return host.to(device);
}

at::Tensor to_device(at::IntArrayRef numbers, at::Device device) {
  return to_device(at::tensor(numbers, at::kLong), device);
}

}  // namespace pipeline::transformer
