// An emulated CUDA device for LibTorch: see README.md.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>

namespace pipeline::emulator {

at::Generator& default_generator();
bool is_pinned(const void* place);  // in host memory that came from the pinned allocator
void take(size_t bytes);            // of the device's memory; throws if there is not as much left
void give_back(size_t bytes);

// Counts a call for which the host would wait for the device, by the name it has in CUDA's runtime.
void waited(const char* call);

// The tensor on the device as one of the CPU with the same memory; a tensor of the CPU is returned itself.
at::Tensor on_host(const at::Tensor& tensor);
// Like on_host(), for a tensor that must be on the device; an undefined one stays so.
at::Tensor from_device(const at::Tensor& tensor);
// A tensor of the CPU, as one on the device with the same memory.
at::Tensor on_device(const at::Tensor& tensor);

}  // namespace pipeline::emulator
