#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pipeline::transformer {

// A batch of sequences laid end to end without padding: sequence s is rows starts[s] .. starts[s + 1] - 1.
struct Ragged {
  std::vector<int64_t> starts{0};

  int64_t sequences() const { return static_cast<int64_t>(starts.size()) - 1; }
  int64_t rows() const { return starts.back(); }
  int64_t start(int64_t s) const { return starts[static_cast<size_t>(s)]; }
  int64_t length(int64_t s) const { return start(s + 1) - start(s); }
  int64_t longest() const {
    int64_t most = 0;
    for (int64_t s = 0; s < sequences(); ++s) most = std::max(most, length(s));
    return most;
  }
  void append(int64_t length) { starts.push_back(starts.back() + length); }
};

}  // namespace pipeline::transformer
