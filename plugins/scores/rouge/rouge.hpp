#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::rouge {

// Tokens as small numbers; equal tokens have equal numbers.
using Tokens = std::span<const uint32_t>;

// The table of longest common subsequences of every prefix of `a` with every prefix of `b`, one bit a cell:
// H. Hyyro, "Bit-parallel LCS-length computation revisited" (2004). 64 cells are computed at a time, and |a|
// x |b| / 8 bytes hold what the plain table holds in as many integers. `b` must outlive the object.
class LcsTable {
 public:
  LcsTable(Tokens a, Tokens b);

  // Length of the longest common subsequence of a[0, i) and b[0, j).
  size_t length(size_t i, size_t j) const;
  size_t length() const { return length(a_.size(), b_.size()); }

  // The positions in `a` of one longest common subsequence, ascending. Which one, where there are several, is
  // part of ROUGE-Lsum's definition: from the end, a match is taken; else the last token of `b` is dropped if
  // that is strictly better than dropping that of `a`.
  std::vector<size_t> positions() const;

 private:
  Tokens a_, b_;
  size_t words_;  // 64-bit words in a row
  // (|a| + 1) rows; bit j of row i is 0 where length(i, j + 1) = length(i, j) + 1.
  std::vector<uint64_t> rows_;
};

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

// The stem of a lower-case word, as NLTK's PorterStemmer gives it in its default mode (NLTK_EXTENSIONS). That
// is Porter's algorithm of 1980 with Martin Porter's later corrections and NLTK's own, not the published one:
// dies -> die, enjoy -> enjoy, news -> news. Words of one or two letters are their own stems.
std::string porter_stem(std::string word);

// The tokens that ROUGE compares: runs of [a-z0-9] in the lower-cased text, words of more than three letters
// stemmed if asked for. All else separates, so "café" is "caf" and "don't" is "don", "t". Text is UTF-8;
// broken UTF-8 separates, too.
std::vector<std::string> tokenize(std::string_view text, bool use_stemmer);

}  // namespace pipeline::rouge
