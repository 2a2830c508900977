#pragma once

#include <cstdint>
#include <vector>

namespace pipeline::tasks::text {

// What is learnt of a sample.
struct Sequence {
  std::vector<int64_t> tokens;   // input
  std::vector<int64_t> targets;  // the token after each input token, -1: no loss
};

}  // namespace pipeline::tasks::text
