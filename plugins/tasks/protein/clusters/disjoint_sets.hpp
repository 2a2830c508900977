#pragma once

#include <cstdint>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

namespace pipeline::protein {

// Which numbers have been joined, directly or through others. Any thread may call any function.
class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), uint32_t{0});
  }

  bool joined(uint32_t a, uint32_t b) {
    const std::lock_guard lock(mutex_);
    return root(a) == root(b);
  }
  void join(uint32_t a, uint32_t b) {
    const std::lock_guard lock(mutex_);
    a = root(a), b = root(b);
    if (a > b) std::swap(a, b);
    parent_[b] = a;
  }
  // The smallest number of the set.
  uint32_t first(uint32_t a) {
    const std::lock_guard lock(mutex_);
    return root(a);
  }

 private:
  uint32_t root(uint32_t a) {
    while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];  // halves the path for the next one
    return a;
  }

  std::mutex mutex_;
  std::vector<uint32_t> parent_;
};

}  // namespace pipeline::protein
