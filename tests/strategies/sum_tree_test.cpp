#include <algorithm>
#include <string>

#include <gmock/gmock.h>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/sum_tree.hpp"

namespace pipeline::strategies {
namespace {

using Tree = SumTree<std::string>;

Tree make(uint64_t first = 0) {
  return Tree([](std::string& into, std::string&& right) { into = "(" + into + right + ")"; }, first);
}

std::string sum(uint64_t leaves) {
  Tree tree = make();
  for (uint64_t i = 0; i < leaves; ++i) tree.push(std::string(1, static_cast<char>('a' + i)));
  return tree.finish();
}

TEST(SumTree, IsAFixedBinaryTree) {
  EXPECT_EQ(sum(0), "");
  EXPECT_EQ(sum(1), "a");
  EXPECT_EQ(sum(2), "(ab)");
  EXPECT_EQ(sum(3), "((ab)c)");
  EXPECT_EQ(sum(4), "((ab)(cd))");
  EXPECT_EQ(sum(5), "(((ab)(cd))e)");
  EXPECT_EQ(sum(6), "(((ab)(cd))(ef))");
  EXPECT_EQ(sum(7), "(((ab)(cd))((ef)g))");
  EXPECT_EQ(sum(8), "(((ab)(cd))((ef)(gh)))");
  EXPECT_EQ(sum(9), "((((ab)(cd))((ef)(gh)))i)");
}

TEST(SumTree, StartsAgainAfterItsSum) {
  Tree tree = make();
  for (int round = 0; round < 2; ++round) {
    for (const char* leaf : {"a", "b", "c"}) tree.push(leaf);
    EXPECT_EQ(tree.finish(), "((ab)c)");
  }
}

TEST(SumTree, ALaterBlockKeepsNodesApartThatNeedOtherLeaves) {
  Tree tree = make(3);
  for (const char* leaf : {"d", "e", "f", "g", "h"}) tree.push(leaf);
  std::vector<std::string> nodes;
  for (const Tree::Entry& entry : tree.take_nodes()) {
    nodes.push_back(std::to_string(entry.level) + "." + std::to_string(entry.index) + entry.node);
  }
  EXPECT_THAT(nodes, testing::ElementsAre("0.3d", "2.1((ef)(gh))"));
}

TEST(SumTree, HoldsNoMoreNodesThanItSays) {
  EXPECT_EQ(tree_copies(0), 0u);
  EXPECT_EQ(tree_copies(1), 1u);
  for (uint64_t leaves = 1; leaves < 70; ++leaves) {
    uint64_t most = 0;
    for (uint64_t i = 0; i < leaves; ++i) {
      uint64_t held = 0;
      for (uint64_t bits = i; bits != 0; bits &= bits - 1) ++held;  // a node for every bit of the count
      most = std::max(most, held + 1);
    }
    EXPECT_LE(most, tree_copies(leaves)) << leaves;
    EXPECT_LE(tree_copies(leaves), most + 1) << leaves;
  }
}

// The dtype in which gradients are kept until they are sent; adding up is always in float32.

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
