// What the LibTorch half of the SDK makes of memory and numbers that others give it.
#include <pipeline/error.hpp>
#include <pipeline/torch/batch.hpp>
#include <pipeline/torch/tensor.hpp>

#include <array>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pipeline {
namespace {

// A rank's part of a collective may be empty, and then it has no address. Here without any CUDA library: the
// driver is not asked.
TEST(BuffersTest, NothingAtNoAddressIsAnEmptyTensorOfItsDevice) {
  pl_buffer buffer{};
  buffer.dtype = kFloat32;
  buffer.device = {PL_DEVICE_CUDA, 1};
  const at::Tensor none = to_torch(buffer, 0, 0);
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(none.device(), at::Device(at::kCUDA, 1));
  EXPECT_EQ(none.scalar_type(), at::kFloat);
  EXPECT_TRUE(none.is_contiguous());
}

TEST(BuffersTest, APartIsViewedWhereItLies) {
  std::array<double, 5> values{1, 2, 3, 4, 5};
  pl_buffer buffer{};
  buffer.data = values.data();
  buffer.count = values.size();
  buffer.dtype = kFloat64;
  buffer.device = kCpu;
  const at::Tensor part = to_torch(buffer, 2, 3);
  EXPECT_EQ(part.const_data_ptr(), &values[2]);
  EXPECT_EQ(part.sum().item<double>(), 12);
  EXPECT_EQ(to_torch(buffer, 5, 0).numel(), 0);
}

TEST(BatchTest, WrongIdsAreNamedOnTheHost) {
  const auto ids = [](std::vector<int64_t> values) { return at::tensor(values, at::kLong); };
  require_ids(ids({0, 4, 2}), 5, "token");
  require_ids(ids({-1, 4}), 5, "target", /*may_be_none=*/true);
  require_ids(ids({}), 0, "token");
  const auto problem = [&](const at::Tensor& wrong, bool may_be_none) -> std::string {
    try {
      require_ids(wrong, 5, "token", may_be_none);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(problem(ids({0, 5}), false), "token 5 at row 1 of a batch: must be 0 to 4");
  EXPECT_EQ(problem(ids({-1}), false), "token -1 at row 0 of a batch: must be 0 to 4");
  EXPECT_EQ(problem(ids({-2}), true), "token -2 at row 0 of a batch: must be 0 to 4");
}

}  // namespace
}  // namespace pipeline
