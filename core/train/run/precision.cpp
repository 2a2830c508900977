#include "core/train/run/precision.hpp"

#include <fmt/format.h>

namespace pipeline::train {
namespace {

constexpr pl_dtype kFloat32{PL_DTYPE_FLOAT, 32, 1};
constexpr pl_dtype kFloat16{PL_DTYPE_FLOAT, 16, 1};
constexpr pl_dtype kBFloat16{PL_DTYPE_BFLOAT, 16, 1};

}  // namespace

Precision choose_precision(const config::Config& config, pl_device device, const launch::Devices& devices) {
  std::string name = config.get_string("train.precision");
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

}  // namespace pipeline::train
