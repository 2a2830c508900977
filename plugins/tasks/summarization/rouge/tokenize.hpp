#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeline::rouge {

// The tokens that ROUGE compares: runs of [a-z0-9] in the lower-cased text, words of more than three letters
// stemmed if asked for. All else separates, so "café" is "caf" and "don't" is "don", "t". Text is UTF-8;
// broken UTF-8 separates, too.
std::vector<std::string> tokenize(std::string_view text, bool use_stemmer);

}  // namespace pipeline::rouge
