#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipeline::strategies {

// Guesses when a parameter's gradient is complete: nobody says how many contributions will come. A guess
// changes when a gradient travels, never its sum: what comes later travels separately.
//
// A parameter is expected to do what it did in the micro-batch before: to get no gradient, or as many
// contributions. Of several, the first is sent at once where the later ones were sparse: the gradient of an
// embedding that is also the head begins with the head's dense part, first of all, and ends with a few rows,
// last of all.
class Arrivals {
 public:
  explicit Arrivals(size_t slots) : seen_(slots), expected_(slots, kUnknown), late_is_dense_(slots) {}

  // One more contribution. True: it is expected to be the last.
  bool arrived(size_t slot) { return ++seen_[slot] == expected_[slot]; }
  bool none_expected(size_t slot) const { return expected_[slot] == 0; }

  void end_micro_batch() {
    for (size_t slot = 0; slot < seen_.size(); ++slot) {
      expected_[slot] = late_is_dense_[slot] || seen_[slot] == 0 ? seen_[slot] : 1;
      seen_[slot] = 0;
    }
  }
  // A micro-batch that never was tells nothing.
  void forget_micro_batch() { seen_.assign(seen_.size(), 0); }
  // What came after the last expected contribution was as large as the whole: better to wait for it.
  void late_was_dense(size_t slot) {
    late_is_dense_[slot] = true;
    expected_[slot] = kUnknown;
  }

 private:
  static constexpr int32_t kUnknown = -1;

  std::vector<int32_t> seen_;      // in this micro-batch
  std::vector<int32_t> expected_;  // in any
  std::vector<bool> late_is_dense_;
};

}  // namespace pipeline::strategies
