#include "tests/cuda/place.hpp"

#include <pipeline/torch/runtime.hpp>

namespace pipeline::tests {
namespace {

std::string open_first_device() {
  pl_run_info run{};
  run.device = {PL_DEVICE_CUDA, 0};
  try {
    open_device(run);
    run.stream = device_stream();
    open_device(run);
    at::zeros({1}, at::TensorOptions(at::kCUDA)).cpu();  // the driver is there and the device answers
    return {};
  } catch (const std::exception& error) {
    return std::string("no CUDA device: ") + error.what();
  }
}

Tensors leaves(const Tensors& inputs, at::ScalarType type, at::DeviceType device) {
  Tensors copies;
  for (const at::Tensor& input : inputs) {
    copies.push_back(
        input.detach().to(at::TensorOptions(device).dtype(type), false, /*copy=*/true).requires_grad_(true));
  }
  return copies;
}

// The result and then the gradients. What flows back is rounded to `narrow` and has a mean, so that long sums
// are large.
Tensors results(const std::function<at::Tensor(const Tensors&, at::ScalarType)>& f, const Tensors& inputs,
                at::ScalarType type, at::ScalarType narrow) {
  Tensors all{f(inputs, type)};
  const at::Tensor weights = (values(all[0].sizes(), 0.3) + 2).to(narrow).to(all[0].options());
  (all[0] * weights).sum(at::kDouble).backward();
  all[0] = all[0].detach();
  for (const at::Tensor& input : inputs) all.push_back(input.grad());
  return all;
}

struct Deterministic {
  Deterministic() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false); }
  ~Deterministic() { at::globalContext().setDeterministicAlgorithms(false, false); }
};

}  // namespace

std::string name_of(const ::testing::TestParamInfo<Place>& place) {
  return std::string(place.param.device == at::kCPU ? "cpu_" : "cuda_") + at::toString(place.param.type);
}

const std::string& no_device() {
  static const std::string reason = open_first_device();
  return reason;
}

pl_stream device_stream() {
  static const c10::Stream stream =
      c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(c10::Device(c10::kCUDA, 0));
  return {PL_STREAM_DEVICE, 0, stream.native_handle()};
}

double InPlace::tolerance() const {
  if (type() == at::kFloat) return 4e-6;
  return type() == at::kHalf ? 2e-3 : 1.5e-2;
}

void InPlace::expect_same(const Tensors& inputs, const Function& f, double factor) {
  const at::DeviceType device = GetParam().device;
  const Tensors here = leaves(inputs, type(), device);
  const Tensors exact = leaves(leaves(inputs, type(), at::kCPU), at::kDouble, at::kCPU);
  const Tensors got = results(f, here, type(), type()), wanted = results(f, exact, at::kDouble, type());
  for (size_t i = 0; i < got.size(); ++i) {
    expect_close(got[i], wanted[i], factor * (i == 0 ? 1 : 3) * tolerance(),
                 i == 0 ? "result" : "gradient of input " + std::to_string(i - 1));
  }
  // A strategy's memory, in which two micro-batches add up in float32.
  const Tensors bound = leaves(inputs, type(), device);
  Tensors sums;
  for (const at::Tensor& leaf : bound) {
    leaf.set_grad_dtype(std::nullopt);
    sums.push_back(leaf.mutable_grad() = at::zeros_like(leaf, at::kFloat));
  }
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) results(f, bound, type(), type());
  for (size_t i = 0; i < sums.size(); ++i)
    expect_close(sums[i], 2 * wanted[i + 1], 3 * factor * tolerance(), "sum for input " + std::to_string(i));

  const Deterministic deterministic;
  const Tensors once = results(f, leaves(inputs, type(), device), type(), type());
  const Tensors twice = results(f, leaves(inputs, type(), device), type(), type());
  for (size_t i = 0; i < once.size(); ++i)
    EXPECT_TRUE(once[i].equal(twice[i])) << "tensor " << i << " has other bits the second time";
}

}  // namespace pipeline::tests
