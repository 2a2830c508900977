// The plugin's options and entry. It links no CUDA library, so that it loads, and says what is missing, on
// any machine.
#include <dlfcn.h>

#include <filesystem>

#include <pipeline/backend.hpp>
#include <pipeline/torch/runtime.hpp>

#include "backends/nccl/group.hpp"

namespace pipeline::backends::nccl {
namespace {

constexpr int kCudaOfTheWheel = PIPELINE_TORCH_CUDA;  // as drivers count

std::string cuda_version(int number) { return concat(number / 1000, '.', number % 1000 / 10); }

template <class Function>
Function symbol(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) fail("open: ", name, " is missing: ", ::dlerror());
  return reinterpret_cast<Function>(found);
}

// Asks the driver itself: LibTorch says no more than that there is no device.
void check_driver(pl_device device) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", name_of(device),
              ": this machine has no NVIDIA driver (libcuda.so.1): nccl needs one and a GPU; use gloo or shm "
              "on CPUs, or backend.plugin = \"auto\"");
  }
  int version = 0, count = 0;
  symbol<int (*)(int*)>(driver, "cuDriverGetVersion")(&version);
  if (version < kCudaOfTheWheel) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", name_of(device),
              ": the NVIDIA driver of this machine supports CUDA ", cuda_version(version),
              ", LibTorch and NCCL here are built for CUDA ", cuda_version(kCudaOfTheWheel),
              ": install a newer driver");
  }
  const int status = symbol<int (*)(unsigned)>(driver, "cuInit")(0);
  if (status == 0) symbol<int (*)(int*)>(driver, "cuDeviceGetCount")(&count);
  if (device.id >= count) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", name_of(device), ": the NVIDIA driver shows ", count,
              " devices here (status ", status,
              "): look at nvidia-smi, and at CUDA_VISIBLE_DEVICES, which hides devices");
  }
}

// The library's path: beside the folder of plugins, since it is not a plugin.
std::string library_file() {
  Dl_info own{};
  ::dladdr(reinterpret_cast<const void*>(&library_file), &own);
  const std::filesystem::path plugin(own.dli_fname == nullptr ? "" : own.dli_fname);
  return (plugin.parent_path() / ".." / ".." / "pipeline_nccl.so").lexically_normal().string();
}

// The function of the library beside the plugin. Throws PL_ERROR_UNSUPPORTED, and says what is missing, where
// there is no NVIDIA driver, none that is new enough, no such device, or no CUDA half of LibTorch.
OpenGroup load_cuda_half(const pl_run_info& run) {
  const pl_device device = run.device;
  if (device.type != PL_DEVICE_CUDA) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: it works in CUDA device memory only, ", name_of(device),
              " was asked for: use gloo or shm, or backend.plugin = \"auto\"");
  }
  check_driver(device);
  try {
    open_device(run);
  } catch (const Error& e) {
    fail_with(PL_ERROR_UNSUPPORTED, "open: ", e.what(),
              ". scripts/setup/torch unpacks it on a machine with a GPU");
  }
  const std::string file = library_file();
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) fail_with(PL_ERROR_UNSUPPORTED, "open: ", ::dlerror());
  return symbol<OpenGroup>(library, kOpenGroup);
}

class Nccl : public Backend<Config> {
 public:
  static constexpr bool kHasGroups = true;
  explicit Nccl(const Setup& setup)
      : Backend(setup), calls_(setup.args.rank, setup.args.world_size, PL_DEVICE_CUDA), group_(open(setup)) {}

  const std::string& library() const override { return group_->library(); }
  const std::string& transport() const override { return group_->transport(); }

  Started all_reduce(const pl_buffer& in_out, uint32_t reduce) override {
    return group_->start(calls_.all_reduce(in_out, reduce));
  }
  Started reduce_scatter(const pl_buffer& in, const pl_buffer& out_shard, Counts counts,
                         uint32_t reduce) override {
    return group_->start(calls_.reduce_scatter(in, out_shard, counts, reduce));
  }
  Started all_gather(const pl_buffer& in_shard, const pl_buffer& out_full, Counts counts) override {
    return group_->start(calls_.all_gather(in_shard, out_full, counts));
  }
  Started broadcast(const pl_buffer& in_out, int32_t root) override {
    return group_->start(calls_.broadcast(in_out, root));
  }
  Started all_to_all(const pl_buffer& in, const pl_buffer& out, Counts send_counts,
                     Counts receive_counts) override {
    return group_->start(calls_.all_to_all(in, out, send_counts, receive_counts));
  }
  Started barrier() override { return group_->start(calls_.barrier()); }
  void abort(std::string_view reason) override { group_->abort(reason); }

 private:
  static std::unique_ptr<Group> open(const Setup& setup) {
    pl_run_info run = setup.context.run();
    run.device = setup.args.device;
    const OpenGroup open_group = load_cuda_half(run);
    return std::unique_ptr<Group>(open_group(&host(), setup.context, setup.args, setup.config));
  }

  Calls calls_;
  std::unique_ptr<Group> group_;
};

}  // namespace
}  // namespace pipeline::backends::nccl

PIPELINE_BACKEND(pipeline::backends::nccl::Nccl, "nccl", "1.0.0",
                 "CUDA device memory, within and between hosts, with c10d's NCCL")
