#pragma once

#include <pipeline/namespace.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <mutex>

PIPELINE_SDK_BEGIN

// Returns a private generator, e.g. for load(), where the default ones must not be used.
inline at::Generator make_generator(uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

inline void seed_generator(at::Generator generator, uint64_t seed) {
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

// Seeds the default generators, which dropout and initialisers draw from.
inline void seed_default_generators(c10::Device device, uint64_t seed) {
  seed_generator(at::globalContext().defaultGenerator(c10::Device(c10::kCPU)), seed);
  if (!device.is_cpu()) seed_generator(at::globalContext().defaultGenerator(device), seed);
}

// Captures the state of the default generators; restore() sets it again.
class RandomState {
 public:
  explicit RandomState(c10::Device device) : device_(device), cpu_(get(c10::Device(c10::kCPU))) {
    if (!device.is_cpu()) on_device_ = get(device);
  }
  void restore() const {
    set(c10::Device(c10::kCPU), cpu_);
    if (on_device_.defined()) set(device_, on_device_);
  }

 private:
  static at::Tensor get(c10::Device device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    return generator.get_state();
  }
  static void set(c10::Device device, const at::Tensor& state) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }

  c10::Device device_;
  at::Tensor cpu_, on_device_;
};

PIPELINE_SDK_END
