#pragma once

#include <cstdint>
#include <vector>

#include "decoder.hpp"
#include "sampling.hpp"

namespace pipeline::generation {

struct Prompt {
  uint64_t id = 0;  // of the sample: what is drawn for it depends on (seed, id) alone
  std::vector<int64_t> tokens;
};

struct GenerationOptions {
  int64_t max_new_tokens = 64;
  int64_t eos_token_id = 50256;
  SamplingOptions sampling = {};  // used with beams = 1
  int64_t beams = 1;
  double length_penalty = 1;  // used with beams > 1
  uint64_t seed = 0;
  at::ScalarType compute = at::kFloat;
};

// The continuation of each prompt, up to and without the end-of-text token. The prompts are run together, as
// one batch; the results do not depend on what is batched with what.
std::vector<std::vector<int64_t>> generate(const DecoderModel& model, const std::vector<Prompt>& prompts,
                                           const GenerationOptions& options);

}  // namespace pipeline::generation
