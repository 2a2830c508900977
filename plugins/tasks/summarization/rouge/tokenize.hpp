#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeline::rouge {

// The stem of a lower-case word, as NLTK's PorterStemmer gives it in its default mode (NLTK_EXTENSIONS). That
// is Porter's algorithm of 1980 with Martin Porter's later corrections and NLTK's own, not the published one:
// dies -> die, enjoy -> enjoy, news -> news. Words of one or two letters are their own stems.
std::string porter_stem(std::string word);

// The tokens that ROUGE compares: runs of [a-z0-9] in the lower-cased text, words of more than three letters
// stemmed if asked for. All else separates, so "café" is "caf" and "don't" is "don", "t". Text is UTF-8;
// broken UTF-8 separates, too.
std::vector<std::string> tokenize(std::string_view text, bool use_stemmer);

}  // namespace pipeline::rouge
