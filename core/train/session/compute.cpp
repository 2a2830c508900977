#include "core/train/session/session.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace pipeline::train {
namespace {

constexpr pl_dtype kFloat32{PL_DTYPE_FLOAT, 32, 1};
constexpr pl_dtype kFloat16{PL_DTYPE_FLOAT, 16, 1};
constexpr pl_dtype kBFloat16{PL_DTYPE_BFLOAT, 16, 1};

}  // namespace

pl_device choose_device(const config::Config& config, const launch::Devices& devices, const World& world,
                        observe::Log& log) {
  const launch::DeviceChoice choice = launch::choose_device(config.options().run.device, devices);
  if (!choice.problem.empty()) throw config.error("run.device", choice.problem);
  if (!choice.warning.empty()) log.warning(choice.warning);
  if (!choice.cuda) return {PL_DEVICE_CPU, 0};
  // A launcher may show each process its own device alone.
  const size_t index = devices.cuda.size() == 1 && world.local_size > 1 &&
                               std::getenv("CUDA_VISIBLE_DEVICES") && !world.supervised
                           ? 0
                           : static_cast<size_t>(world.local_rank);
  if (index >= devices.cuda.size())
    throw config.error("launch.processes",
                       fmt::format("{} processes on this host need a CUDA device each, and there {} {}: use "
                                   "{}, or run.device = \"cpu\"",
                                   world.local_size, devices.cuda.size() == 1 ? "is" : "are",
                                   devices.cuda.size(), devices.cuda.size()));
  if (const std::string problem = launch::problem_of(devices.cuda[index]); !problem.empty())
    throw config.error("run.device", problem + ", hide this one by CUDA_VISIBLE_DEVICES, or use \"cpu\"");
  return {PL_DEVICE_CUDA, static_cast<int32_t>(index)};
}

Precision choose_precision(const config::Config& config, pl_device device, const launch::Devices& devices) {
  std::string name = config.options().train.precision;
  const bool cuda = device.type == PL_DEVICE_CUDA;
  const auto& gpus = devices.cuda;
  if (name == "auto")
    name = !cuda ? "fp32" : launch::has_bf16(gpus.at(static_cast<size_t>(device.id))) ? "bf16" : "fp16";
  if (name == "bf16" && cuda) {
    const launch::CudaDevice& gpu = gpus.at(static_cast<size_t>(device.id));
    if (!launch::has_bf16(gpu))
      throw config.error("train.precision",
                         fmt::format("{} (compute capability {}.{}) has no bf16 arithmetic, which begins "
                                     "with 8.0: use \"fp16\" or \"fp32\"",
                                     gpu.name, gpu.major, gpu.minor));
  }
  if (name == "fp16" && !cuda)
    throw config.error("train.precision",
                       "CPUs have no fp16 training arithmetic, it would be emulated and slower than fp32: "
                       "use \"fp32\" or \"bf16\"");
  const pl_dtype narrow = name == "bf16" ? kBFloat16 : name == "fp16" ? kFloat16 : kFloat32;
  return {.name = name, .parameter = narrow, .compute = narrow, .loss_scaling = name == "fp16"};
}

unsigned compute_threads(const config::Config& config, const launch::Devices& devices, unsigned sharing,
                         bool same_on_any) {
  if (const auto threads = config.options().launch.threads; threads && *threads > 0)
    return static_cast<unsigned>(*threads);
  if (config.options().run.reproducible && !same_on_any) return 1;
  return std::max(1u, devices.cores / sharing);
}

void set_environment(const config::Config& config, unsigned sharing) {
  const std::string threads = std::to_string(compute_threads(config, launch::find_devices(), sharing, false));
  for (const char* variable : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) ::setenv(variable, threads.c_str(), 1);
  // How often a thread that waits for others looks before it gives its core away. GNU OpenMP's 300,000 are
  // milliseconds, and where somebody else is at work on the machine, the thread that is waited for needs that
  // core.
  if (!std::getenv("OMP_WAIT_POLICY")) ::setenv("GOMP_SPINCOUNT", "5000", 0);
  // cuBLAS gives the same bits only with a workspace of its own per stream.
  if (config.options().run.reproducible) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  // An error of NCCL's is ours to report: c10d's watchdog would end the process by SIGABRT.
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", 0);
  // Kineto would report each device that is not there as an error; what fails is said by its functions.
  if (!config.options().observe.profile.empty()) ::setenv("KINETO_LOG_LEVEL", "99", 0);
  // Batches differ in shape, which otherwise leaves a device's memory in pieces that fit nothing.
  if (!std::getenv("PYTORCH_CUDA_ALLOC_CONF")) ::setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True", 0);
}

}  // namespace pipeline::train
