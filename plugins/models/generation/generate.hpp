#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <pipeline/options.hpp>
#include <pipeline/task_types.hpp>

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

struct DecodingOptions {
  std::string method = "greedy";
  double temperature = 1, top_p = 1, length_penalty = 1;
  int64_t top_k = 0, beams = 4, max_tokens = 64;

  // `what`: is generated, such as "answer".
  void describe(Options& o, const char* what) {
    o("method", method, "decoding method").choices({"greedy", "sample", "beam"}).may_change();
    o("temperature", temperature, "sampling temperature; below 1 favours likely tokens")
        .above(0)
        .may_change();
    o("top_k", top_k, "sample: only the k most likely tokens; 0: all").min(0).may_change();
    o("top_p", top_p, "sample: only the most likely tokens that sum to this probability")
        .above(0)
        .max(1)
        .may_change();
    o("beams", beams, "beam: hypotheses kept").min(1).max(64).may_change();
    o("length_penalty", length_penalty, "beam: scores are divided by length to this power").may_change();
    o("max_tokens", max_tokens, concat("longest generated ", what))
        .unit("tokens")
        .min(1)
        .follows()
        .may_change();
  }

  GenerationOptions decoding(std::vector<int64_t> ends, uint64_t seed, at::ScalarType compute) const {
    GenerationOptions options{.max_new_tokens = max_tokens,
                              .eos_token_ids = std::move(ends),
                              .sampling = {},
                              .beams = method == "beam" ? beams : 1,
                              .length_penalty = length_penalty,
                              .seed = seed,
                              .compute = compute};
    if (method == "sample") options.sampling = {.temperature = temperature, .top_k = top_k, .top_p = top_p};
    return options;
  }
};

// The samples of a split whose texts an evaluation generates and scores: the first ones, so that the choice
// is the same everywhere.
struct ScoredSamples {
  int64_t validate_samples = 0, evaluate_samples = 0;

  // `what`: are generated, such as "summaries generated".
  void describe(Options& o, const char* what) {
    o("validate_samples", validate_samples, concat(what, " and scored per evaluation during training"))
        .unit("samples")
        .min(0)
        .may_change();
    o("evaluate_samples", evaluate_samples, "the same in a full evaluation; 0: all")
        .unit("samples")
        .min(0)
        .may_change();
  }

  bool includes(Purpose purpose, uint64_t id) const {
    if (purpose == Purpose::kValidate) return id < static_cast<uint64_t>(validate_samples);
    return evaluate_samples == 0 || id < static_cast<uint64_t>(evaluate_samples);
  }
};

}  // namespace pipeline::generation
