// How busy an NVIDIA device is and how much of its memory is in use, as its driver counts: asked through NVML
// (libnvidia-ml, where there is one) each second, on a thread of its own, so that no step waits for it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace pipeline::launch {

// Thread-safe.
class DeviceMonitor {
 public:
  // `uuid`: of a CudaDevice, by which NVML knows it whatever CUDA_VISIBLE_DEVICES has made of its number.
  explicit DeviceMonitor(const std::string& uuid);
  ~DeviceMonitor();
  DeviceMonitor(const DeviceMonitor&) = delete;
  DeviceMonitor& operator=(const DeviceMonitor&) = delete;

  // Why nothing is known; empty: it is.
  const std::string& problem() const { return problem_; }

  // Share of the time in which something ran on the device: the mean since the last call, or what was last
  // known; nullopt: nothing is known yet.
  std::optional<double> recent_utilisation();

  struct Use {
    std::optional<double> utilisation;  // the mean
    uint64_t memory = 0;                // bytes, of all processes, at most
  };
  // Since the beginning; nullopt: nothing is known.
  std::optional<Use> so_far();

 private:
  struct Library;
  struct Mean {
    double sum = 0;
    uint64_t count = 0;

    void add(double value) {
      sum += value;
      ++count;
    }
    std::optional<double> value() const {
      return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
    }
  };

  void run();
  void sample();

  const Library* library_ = nullptr;
  void* device_ = nullptr;
  std::string problem_;
  std::mutex mutex_;  // of what follows
  std::condition_variable stop_;
  bool stopped_ = false;
  bool asked_ = false;
  Mean all_, recent_;
  std::optional<double> last_;
  uint64_t memory_ = 0;
  std::thread thread_;
};

}  // namespace pipeline::launch
