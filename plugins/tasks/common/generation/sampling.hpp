#pragma once

#include <cstdint>
#include <span>

namespace pipeline::generation {

struct SamplingOptions {
  double temperature = 0;  // 0: the likeliest token, nothing is drawn
  int64_t top_k = 0;       // draw among the k likeliest; 0: all
  double top_p = 1;        // and among the fewest whose probabilities add up to p
};

// In [0, 1), a function of its arguments alone.
double uniform(uint64_t seed, uint64_t sample_id, uint64_t step);

// The next token. `draw` in [0, 1) picks among those that the options leave, likeliest first; equal logits go
// by token id.
int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, double draw);

}  // namespace pipeline::generation
