// The devices of this machine. Asks the CUDA driver directly (libcuda, if present), so it needs neither
// LibTorch nor the CUDA runtime.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/abi/pipeline.h"
#include "core/base/thread.hpp"

namespace pipeline::launch {

struct CudaDevice {
  std::string name;
  uint64_t memory = 0;       // bytes
  int major = 0, minor = 0;  // compute capability
  std::string uuid;          // "00010203-0405-0607-0809-0a0b0c0d0e0f"
};

struct Devices {
  std::string cpu;               // model name
  unsigned cores = 1;            // that this process may use
  uint64_t memory = 0;           // bytes, of the machine or its cgroup
  int cuda_driver = 0;           // the newest CUDA that the driver supports: 13000 for 13.0; 0: no driver
  std::string cuda_problem;      // why a device that seems present cannot be used; empty otherwise
  std::vector<CudaDevice> cuda;  // in the order of CUDA_VISIBLE_DEVICES
};

Devices find_devices();

// Removes all CUDA devices and sets cuda_problem if the driver or every device is too old for the CUDA half
// of LibTorch. If only some devices are too old, all keep their numbers. Part of find_devices().
void leave_out_unusable(Devices& found);
// Why a device cannot be used; empty: it can.
std::string problem_of(const CudaDevice& device);

std::string cuda_version(int number);  // "13.0"

// What run.device = "auto", "cpu" or "cuda" means here.
struct DeviceChoice {
  bool cuda = false;
  std::string warning;  // what "auto" does not use, and why
  std::string problem;  // why the requested device cannot be used; empty: it can
};
DeviceChoice choose_device(std::string_view wanted, const Devices& devices);

// Memory of the device whose context is current on this thread, in bytes: used by all processes, and total.
// Zeros if nothing has used CUDA yet.
struct DeviceMemory {
  uint64_t used = 0, total = 0;
};
DeviceMemory cuda_memory();

// The host memory of this process, in bytes: now, and at its peak.
uint64_t host_memory();
uint64_t peak_host_memory();
// Lets peak_host_memory() begin anew from what is in use now. False: the system does not allow it.
bool restart_peak_host_memory();
// What this machine, or the control groups of this process, have left, in bytes.
uint64_t available_host_memory();

// True if the hardware has bf16 arithmetic: compute capability 8.0 or later.
bool has_bf16(const CudaDevice& device);

std::string describe(pl_device device,
                     const Devices& devices);  // "cuda:0 (NVIDIA H100, 80 GB)", "cpu (AMD EPYC, 2 cores)"

// The stream that orders all device work of this process. PL_STREAM_NONE for the CPU. For CUDA, the only
// stream of this process and device: created at the first call, in the device's primary context, which
// LibTorch and NCCL use as well, and valid until the process ends. It is non-blocking: it does not wait for
// work on the legacy default stream, nor that for it. [main] Throws Error.
pl_stream compute_stream(pl_device device);

// Copies float32 and float64 scalars to the host.
class ScalarReader {
 public:
  explicit ScalarReader(pl_stream stream);
  ~ScalarReader();
  ScalarReader(const ScalarReader&) = delete;
  ScalarReader& operator=(const ScalarReader&) = delete;

  // A slot in pinned memory.
  struct Copy {
    void* place = nullptr;
    uint8_t bits = 64;
  };
  // Enqueues the copy on the stream; the scalar's memory may be reused in the stream's order. Throws Error.
  Copy start(const pl_tensor& scalar);
  // Returns the copied value and frees the slot. REQUIRES: the stream has passed the copy.
  double finish(Copy copy);

 private:
  pl_stream stream_;
  std::vector<void*> blocks_, free_;
};

// The value of a scalar in host memory.
double scalar_on_host(const pl_tensor& scalar);

// How busy an NVIDIA device is and how much of its memory is in use, as its driver counts: asked through NVML
// (libnvidia-ml, where there is one) each second, on a thread of its own, so that no step waits for it.

// Thread-safe.
class DeviceMonitor {
 public:
  // `uuid`: of a CudaDevice, by which NVML knows it whatever CUDA_VISIBLE_DEVICES has made of its number.
  explicit DeviceMonitor(const std::string& uuid);

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

  void sample();

  const Library* library_ = nullptr;
  void* device_ = nullptr;
  std::string problem_;
  std::mutex mutex_;  // of what follows
  bool asked_ = false;
  Mean all_, recent_;
  std::optional<double> last_;
  uint64_t memory_ = 0;
  std::optional<Ticker> ticker_;  // last: it ends before what it looks at
};

}  // namespace pipeline::launch
