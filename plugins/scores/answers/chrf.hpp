// chrF: how many n-grams of characters a text shares with the true one (Popović 2015), as sacrebleu counts.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace pipeline::answers {

// N-grams of one length.
struct SharedGrams {
  double given = 0, wanted = 0, shared = 0;
};
// N-grams of up to six characters; those of several texts are added up.
using ChrfCounts = std::array<SharedGrams, 6>;

// Counts for letters as Unicode has them, without spaces. Of several true texts, the best match counts.
ChrfCounts chrf_counts(std::span<const std::string> truths, std::string_view text);
void add(ChrfCounts& sum, const ChrfCounts& more);

// The score, from 0 to 1: the F-measure in which recall counts twice (beta = 2), of precision and recall that
// are means over the lengths that both sides have.
double chrf(const ChrfCounts& counts);

}  // namespace pipeline::answers
