#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipeline::rouge {

// The lead baseline: the first `count` words of the document joined by single spaces, or all of them if it
// has fewer. Words are what Unicode white space separates, as in Python's str.split(); in scripts without
// spaces a word may be a whole sentence.
std::string lead_words(std::string_view document, size_t count);

}  // namespace pipeline::rouge
