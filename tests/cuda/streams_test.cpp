// What comes on another stream than the run's: a task may compute gradients there.
#include <pipeline/torch/runtime.hpp>

#include <cstdlib>

#include "tests/cuda/place.hpp"

namespace pipeline::tests {
namespace {

TEST(Streams, TheRunsWorkComesAfterThatOfAnother) {
  if (!no_device().empty()) GTEST_SKIP() << no_device();
  pl_run_info run{};
  run.device = {PL_DEVICE_CUDA, 0};
  run.stream = device_stream();
  const c10::Device device = to_torch(run.device);
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  const c10::Stream other = cuda.getStreamFromGlobalPool(device);
  // Long enough to be under way when the sum would begin; the emulated device is never late.
  const int64_t size = std::getenv("FAKE_CUDA_GIB") == nullptr ? 1 << 26 : 1 << 16;
  constexpr int kTimes = 300;
  const at::Tensor x = at::zeros({size}, at::TensorOptions(device));
  cuda.synchronizeDevice(device.index());
  {
    const c10::StreamGuard there(other);
    for (int i = 0; i < kTimes; ++i) x.add_(1);
  }
  const RunStreamScope scope(run, {PL_STREAM_DEVICE, 0, other.native_handle()});
  EXPECT_EQ(current_stream(device).handle, run.stream.handle);
  EXPECT_EQ(x.sum(at::kDouble).item<double>(), static_cast<double>(size) * kTimes);
}

}  // namespace
}  // namespace pipeline::tests
