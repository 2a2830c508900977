// How a task's texts are generated, and how many of them are scored: options, and what they mean.
#pragma once

#include <pipeline/options.hpp>
#include <pipeline/task_types.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "generation/generate.hpp"

namespace pipeline::generation {

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
