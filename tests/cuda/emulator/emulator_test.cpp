// That the emulated device refuses what a real one would: see README.md.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/cuda/place.hpp"

namespace pipeline::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Emulator : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("FAKE_CUDA_GIB") == nullptr) GTEST_SKIP() << "not on the emulated device";
    ASSERT_EQ(no_device(), "");
  }
  static at::Tensor on_device(const at::Tensor& t) { return t.to(at::kCUDA); }
  at::Tensor x_ = values({4, 6}, 1);
};

TEST_F(Emulator, TakesScalarsOfTheHostAndNoOtherTensors) {
  const at::Tensor x = on_device(x_);
  EXPECT_THAT([&] { x + x_; }, ThrowsMessage<c10::Error>(HasSubstr("same device")));
  EXPECT_THAT([&] { at::mm(x, x_.t()); }, ThrowsMessage<c10::Error>(HasSubstr("same device")));
  EXPECT_THAT([&] { x.index_select(0, at::zeros({1}, at::kLong)); },
              ThrowsMessage<c10::Error>(HasSubstr("same device")));
  EXPECT_TRUE((x * at::scalar_tensor(2)).cpu().equal(x_ * 2));
}

TEST_F(Emulator, ViewsShareMemoryAndResultsDoNot) {
  at::Tensor x = on_device(x_);
  x.narrow(1, 2, 3).select(0, 1).fill_(7);
  x_.narrow(1, 2, 3).select(0, 1).fill_(7);
  x.t().unsqueeze(0).mul_(2);
  EXPECT_TRUE(x.cpu().equal(x_ * 2));
  const at::Tensor y = x + 1;
  x.zero_();
  EXPECT_TRUE(y.cpu().equal(x_ * 2 + 1));
}

TEST_F(Emulator, TakesTheTypesThatCudaTakes) {
  const at::Tensor x = on_device(x_), half = x.to(at::kBFloat16), weight = on_device(at::ones({6}));
  EXPECT_THROW(at::native_layer_norm(half, {6}, weight, weight, 1e-5), c10::Error);
  EXPECT_THROW(at::_log_softmax(half, 1, /*half_to_float=*/true), c10::Error);
  at::Tensor sum = at::empty({4, 4}, x.options());
  EXPECT_THROW(at::mm_out(sum, half, x.t(), at::kFloat), c10::Error);
  at::Tensor narrow = at::empty({4, 4}, half.options());
  EXPECT_THROW(at::mm_out(narrow, half, half.t(), at::kFloat), c10::Error);
  at::mm_out(sum, half, half.t(), at::kFloat);
  const at::Tensor exact = half.cpu().to(at::kDouble);
  expect_close(sum.cpu(), at::mm(exact, exact.t()), 1e-6, "product");
}

TEST_F(Emulator, HasNoDeterministicImplementationOfSomeOperators) {
  const at::Tensor x = on_device(at::arange(6, at::kLong));
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  EXPECT_THAT([&] { x.bincount(); }, ThrowsMessage<c10::Error>(HasSubstr("deterministic")));
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_EQ(x.bincount().numel(), 6);
}

TEST_F(Emulator, MemoryIsNotANumberAtFirstAndHasAnEnd) {
  const auto options = at::TensorOptions(at::kCUDA);
  EXPECT_TRUE(at::isnan(at::empty({5}, options)).all().cpu().item<bool>());
  EXPECT_THAT([&] { at::empty({int64_t{1} << 40}, options); },
              ThrowsMessage<c10::OutOfMemoryError>(HasSubstr("CUDA out of memory")));
}

}  // namespace
}  // namespace pipeline::tests
