#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace pipeline::strategies {

// Adds leaves, as they arrive, along one fixed binary tree: at level L, node k is the sum of leaves [k 2^L,
// (k+1) 2^L), left plus right; a node whose right half is beyond the last leaf is its left half.
// Floating-point sums depend on the order; the fixed tree makes a sum independent of which rank adds which
// leaves. It holds at most log2(leaves) + 1 nodes, like the bits of a binary counter.
template <class Node>
class SumTree {
 public:
  using Add = std::function<void(Node& into, Node&& right)>;

  // A node of the tree: the sum of those of its leaves that exist.
  struct Entry {
    uint32_t level;
    uint64_t index;
    Node node;
  };

  // `first`: index of the first leaf, for a rank that adds a later block and then calls take_nodes().
  explicit SumTree(Add add, uint64_t first = 0) : add_(std::move(add)), first_(first), next_(first) {}

  void push(Node leaf) { push_node({0, next_++, std::move(leaf)}); }

  // Adds a node that a rank has already summed; nodes arrive in the order of their leaves.
  void push_node(Entry node) {
    stack_.push_back(std::move(node));
    while (stack_.size() > 1 && is_right_half_of_pair()) add_last_two();
  }

  // The sum of all leaves, if the first was leaf 0; Node{} if there are none. Leaves the tree empty.
  Node finish() {
    while (stack_.size() > 1) add_last_two();
    Node sum = stack_.empty() ? Node{} : std::move(stack_.back().node);
    clear();
    return sum;
  }

  // Returns the nodes that are complete without other ranks' leaves, in the order of their leaves. Leaves
  // the tree empty.
  std::vector<Entry> take_nodes() {
    std::vector<Entry> nodes = std::exchange(stack_, {});
    clear();
    return nodes;
  }

  void clear() { restart(first_); }

  // Empties the tree; the next leaf is leaf `first`.
  void restart(uint64_t first) {
    stack_.clear();
    next_ = first_ = first;
  }

 private:
  bool is_right_half_of_pair() const {
    const Entry& right = stack_.back();
    return right.index % 2 == 1 && stack_[stack_.size() - 2].level == right.level;
  }

  void add_last_two() {
    Entry right = std::move(stack_.back());
    stack_.pop_back();
    Entry& left = stack_.back();
    add_(left.node, std::move(right.node));
    ++left.level;
    left.index /= 2;
  }

  Add add_;
  uint64_t first_;
  uint64_t next_;             // leaf
  std::vector<Entry> stack_;  // in the order of their leaves
};

// The nodes that a rank has which adds up `count` leaves from `first` on, without their contents.
inline std::vector<SumTree<char>::Entry> nodes_of(uint64_t first, uint64_t count) {
  SumTree<char> tree([](char&, char&&) {}, first);
  for (uint64_t i = 0; i < count; ++i) tree.push(0);
  return tree.take_nodes();
}

// The most nodes that a tree over `leaves` leaves holds at once, including the leaf being computed.
constexpr uint64_t tree_copies(uint64_t leaves) {
  uint64_t copies = leaves == 0 ? 0 : 1;
  for (uint64_t power = 2; power <= leaves; power *= 2) ++copies;
  return copies;
}

}  // namespace pipeline::strategies
