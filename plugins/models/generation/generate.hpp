#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decoder.hpp"

namespace pipeline::generation {

struct SamplingOptions {
  double temperature = 0;  // 0: the likeliest token, nothing is drawn
  int64_t top_k = 0;       // draw among the k likeliest; 0: all
  double top_p = 1;        // draw among the fewest whose probabilities add up to p
};

// A number in [0, 1), a function of the arguments alone.
double uniform(uint64_t seed, uint64_t sample_id, uint64_t step);

// The next token. `draw` in [0, 1) picks among those that the options leave, likeliest first; equal logits go
// by token id. No logit may be NaN.
int64_t choose_token(std::span<const float> logits, const SamplingOptions& options, double draw);

struct Prompt {
  uint64_t id = 0;  // of the sample: what is drawn for it depends on (seed, id) alone
  std::vector<int64_t> tokens;
};

struct GenerationOptions {
  int64_t max_new_tokens = 64;
  std::vector<int64_t> eos_token_ids = {50256};  // each ends a text
  SamplingOptions sampling = {};                 // used with beams = 1
  int64_t beams = 1;
  double length_penalty =
      1;  // with beams > 1 scores are divided by length^penalty: above 0 favours long ones
  uint64_t seed = 0;
  at::ScalarType compute = at::kFloat;
  // Called with a prompt's place where the model computes no logits for it, but NaN: its text ends there.
  // Without on_nan, that is an error.
  std::function<void(size_t prompt)> on_nan = nullptr;
  // With beams = 1 and one prompt: called with each token as it comes; false: enough.
  std::function<bool(int64_t token)> on_token = nullptr;

  // Called before each step of all prompts; may throw to stop.
  std::function<void()> on_step = nullptr;

  bool ends(int64_t token) const {
    return std::find(eos_token_ids.begin(), eos_token_ids.end(), token) != eos_token_ids.end();
  }
};

// The continuation of each prompt, up to and without the first of the end-of-text tokens. The prompts are run
// together, as one batch; the results do not depend on what is batched with what.
std::vector<std::vector<int64_t>> generate(const DecoderModel& model, const std::vector<Prompt>& prompts,
                                           const GenerationOptions& options);

}  // namespace pipeline::generation
