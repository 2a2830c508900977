#include "core/launch/devices.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

namespace pipeline::launch {
namespace {

constexpr std::chrono::seconds kPeriod(1);  // a device counts over as long, or less

// nvml.h
struct Utilisation {
  unsigned gpu, memory;  // percent of the time
};
struct Memory {
  unsigned long long total, free, used;
};

}  // namespace

// The functions of NVML used here; loaded once, and kept.
struct DeviceMonitor::Library {
  int (*init)();
  int (*device_by_uuid)(const char*, void**);
  int (*utilisation)(void*, Utilisation*);
  int (*memory)(void*, Memory*);
  const char* (*error)(int);

  // Returns nullptr and why, where NVML cannot be loaded.
  static const Library* load(std::string& problem) {
    static std::string why;
    static const Library* const library = [&]() -> const Library* {
      static Library found{};
      void* file = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
      if (file == nullptr) {
        const char* text = ::dlerror();
        why = text != nullptr ? text : "libnvidia-ml.so.1 cannot be loaded";
        return nullptr;
      }
      const auto bind = [&](const char* name, auto& function) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(file, name));
        return function != nullptr;
      };
      if (!bind("nvmlInit_v2", found.init) || !bind("nvmlDeviceGetHandleByUUID", found.device_by_uuid) ||
          !bind("nvmlDeviceGetUtilizationRates", found.utilisation) ||
          !bind("nvmlDeviceGetMemoryInfo", found.memory) || !bind("nvmlErrorString", found.error)) {
        why = "libnvidia-ml.so.1 lacks functions";
        return nullptr;
      }
      if (const int status = found.init(); status != 0) {
        why = fmt::format("nvmlInit_v2: {}", found.error(status));
        return nullptr;
      }
      return &found;
    }();
    problem = why;
    return library;
  }
};

DeviceMonitor::DeviceMonitor(const std::string& uuid) {
  library_ = Library::load(problem_);
  if (library_ == nullptr) return;
  int status = 0;
  for (const char* kind : {"GPU-", "MIG-"})  // CUDA does not say which
    if (status = library_->device_by_uuid((kind + uuid).c_str(), &device_); status == 0) break;
  if (status != 0) {
    problem_ = fmt::format("NVML does not know GPU-{}: {}", uuid, library_->error(status));
    return;
  }
  ticker_.emplace("device monitor", kPeriod, [this] { return sample(), true; });
}

// A device that is split (MIG) has memory of its own, but no utilisation.
void DeviceMonitor::sample() {
  Utilisation utilisation{};
  Memory memory{};
  const bool has_utilisation = library_->utilisation(device_, &utilisation) == 0;
  const bool has_memory = library_->memory(device_, &memory) == 0;
  const std::lock_guard lock(mutex_);
  if (has_utilisation) {
    const double share = utilisation.gpu / 100.0;
    all_.add(share);
    recent_.add(share);
  }
  if (has_memory) memory_ = std::max<uint64_t>(memory_, memory.used);
  asked_ = true;
}

std::optional<double> DeviceMonitor::recent_utilisation() {
  const std::lock_guard lock(mutex_);
  if (const auto recent = std::exchange(recent_, {}).value()) last_ = recent;
  return last_;
}

std::optional<DeviceMonitor::Use> DeviceMonitor::so_far() {
  if (!problem_.empty()) return std::nullopt;
  std::unique_lock lock(mutex_);
  if (!asked_) {  // it took less than the period
    lock.unlock();
    sample();
    lock.lock();
  }
  return Use{.utilisation = all_.value(), .memory = memory_};
}

}  // namespace pipeline::launch
