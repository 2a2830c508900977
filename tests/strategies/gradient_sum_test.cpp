// The dtype in which gradients are kept until they are sent; adding up is always in float32.
#include "plugins/strategies/common/gradient_sum.hpp"

#include <gtest/gtest.h>

namespace pipeline::strategies {
namespace {

// One parameter of 64 x 64, and its gradient in bf16 with `value` everywhere.
std::shared_ptr<const Layout> layout() {
  return std::make_shared<const Layout>(std::vector<Parameter>{{"a", {64, 64}, true, true, 0, 1.0}});
}
at::Tensor narrow(double value) { return at::full({64, 64}, value, at::kBFloat16); }

constexpr double kSmall = 1.0 / 1024;  // 1 + kSmall is no bf16 number

TEST(NarrowGradients, OneIsKeptAsItCameWhereItIsSentSo) {
  GradientSum sum(layout(), false, /*may_be_narrow=*/true);
  const at::Tensor gradient = narrow(1);
  sum.add(0, gradient, true);
  const at::Tensor taken = sum.take(0);
  EXPECT_EQ(taken.data_ptr(), gradient.data_ptr());
  EXPECT_EQ(taken.scalar_type(), at::kBFloat16);
}

TEST(NarrowGradients, OneOfTheTasksIsCopied) {
  GradientSum sum(layout(), false, /*may_be_narrow=*/true);
  const at::Tensor gradient = narrow(1);
  sum.add(0, gradient, false);
  gradient.zero_();
  EXPECT_TRUE(sum.take(0).equal(at::ones({64 * 64})));
}

TEST(NarrowGradients, SeveralAreAddedUpInFloat32) {
  for (const bool may_be_narrow : {true, false}) {
    GradientSum sum(layout(), false, may_be_narrow);
    sum.add(0, narrow(1), true);
    sum.add(0, narrow(kSmall), true);
    sum.add_rows(0, at::full({1}, 3, at::kLong), at::full({1, 64}, kSmall, at::kBFloat16));
    at::Tensor expected = at::full({64, 64}, 1 + kSmall);
    expected[3].add_(kSmall);
    EXPECT_TRUE(sum.take(0).equal(expected.flatten())) << may_be_narrow;
  }
}

TEST(NarrowGradients, RowsAreAddedToOneInFloat32) {
  GradientSum sum(layout(), false, /*may_be_narrow=*/true);
  sum.add(0, narrow(1), true);
  sum.add_rows(0, at::full({1}, 3, at::kLong), at::full({1, 64}, kSmall, at::kBFloat16));
  EXPECT_EQ(sum.take(0)[3 * 64].item<float>(), 1 + kSmall);
}

}  // namespace
}  // namespace pipeline::strategies
