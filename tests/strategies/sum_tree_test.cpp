#include "plugins/strategies/common/sum_tree.hpp"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>

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

}  // namespace
}  // namespace pipeline::strategies
