#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pipeline::generation {

struct BeamOptions {
  int64_t beams = 4;
  double length_penalty = 1;  // scores are divided by length^penalty: above 0 favours long results
  int64_t max_new_tokens = 64;
  int64_t eos_token_id = 50256;
};

// Beam search for one prompt, as transformers does it with early_stopping = False. The caller runs the model:
//
//   BeamSearch search(options);
//   while (!search.done()) search.advance(logits of search's beams);   // first the prompt's, one row
class BeamSearch {
 public:
  explicit BeamSearch(const BeamOptions& options) : options_(options), running_{{{}, 0, 0}} {}

  struct Beam {
    std::vector<int64_t> tokens;
    double score;    // sum of log probabilities; of finished beams divided by length^penalty
    int64_t parent;  // which beam of the step before it continues
  };

  bool done() const { return done_; }
  const std::vector<Beam>& running() const {
    return running_;
  }  // likeliest first; the last token of each is new

  // logits: (running().size(), vocab) row by row.
  void advance(std::span<const float> logits);

  // The best finished beam, without the end-of-text token; the best running one when none has finished.
  std::vector<int64_t> best() const;

 private:
  double penalized(double score, size_t length) const;

  BeamOptions options_;
  std::vector<Beam> running_;
  std::vector<Beam> finished_;  // best first, at most `beams`
  bool done_ = false;
};

}  // namespace pipeline::generation
