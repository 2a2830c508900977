#pragma once

#include <string>

namespace pipeline::rouge {

// The stem of a lower-case word, as NLTK's PorterStemmer gives it in its default mode (NLTK_EXTENSIONS). That
// is Porter's algorithm of 1980 with Martin Porter's later corrections and NLTK's own, not the published one:
// dies -> die, enjoy -> enjoy, news -> news. Words of one or two letters are their own stems.
std::string porter_stem(std::string word);

}  // namespace pipeline::rouge
