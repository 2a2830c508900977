#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::rouge {

struct Score {
  double precision = 0;
  double recall = 0;
  double f = 0;  // harmonic mean of both, 0 if both are 0
};

// ROUGE (C.-Y. Lin, 2004) with the numbers of google's rouge_score 0.1.2, to the last bit. Safe for
// concurrent use.
//
// Types: rouge1 .. rouge9 (overlap of n-grams), rougeL (longest common subsequence of the whole texts) and
// rougeLsum (the same line by line, "\n" separating the sentences of a summary; the union over the
// prediction's lines counts for each target line).
class Scorer {
 public:
  // Throws std::invalid_argument for a type that is none of these.
  Scorer(std::vector<std::string> types, bool use_stemmer);

  const std::vector<std::string>& types() const { return types_; }

  // One score per type, in the order of types().
  std::vector<Score> score(std::string_view target, std::string_view prediction) const;

  // Against several references: for each type the score of the one with the highest f, the first such. Throws
  // std::invalid_argument without any.
  std::vector<Score> score_multi(std::span<const std::string> targets, std::string_view prediction) const;

 private:
  std::vector<std::string> types_;
  bool use_stemmer_;
};

}  // namespace pipeline::rouge
