#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pipeline::strategies {

// Guesses when a parameter's gradient is complete: nobody says how many contributions will come, so it is
// expected to get as many as in the micro-batch before, or none. A guess changes when a gradient travels,
// never its sum: what comes later travels separately.
class Arrivals {
 public:
  explicit Arrivals(size_t slots) : seen_(slots), expected_(slots, kUnknown) {}

  // One more contribution. True: it is expected to be the last.
  bool arrived(size_t slot) { return ++seen_[slot] == expected_[slot]; }
  bool none_expected(size_t slot) const { return expected_[slot] == 0; }

  void end_micro_batch() { expected_ = std::exchange(seen_, std::vector<int32_t>(seen_.size())); }
  // A micro-batch that never was tells nothing.
  void forget_micro_batch() { seen_.assign(seen_.size(), 0); }

 private:
  static constexpr int32_t kUnknown = -1;

  std::vector<int32_t> seen_;      // in this micro-batch
  std::vector<int32_t> expected_;  // in any
};

}  // namespace pipeline::strategies
