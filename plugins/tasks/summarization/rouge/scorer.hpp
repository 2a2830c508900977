#pragma once

#include <cstddef>
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

 private:
  std::vector<std::string> types_;
  bool use_stemmer_;
};

// The lead baseline: the first `count` words of the document joined by single spaces, or all of them if it
// has fewer. Words are what Unicode white space separates, as in Python's str.split(); in scripts without
// spaces a word may be a whole sentence.
std::string lead_words(std::string_view document, size_t count);

}  // namespace pipeline::rouge
