#include "plugins/tasks/summarization/rouge/tokenize.hpp"

#include <utility>

#include "plugins/tasks/summarization/rouge/porter.hpp"

namespace pipeline::rouge {
namespace {

// Two characters outside ASCII have an ASCII letter in their lower case; no other can change which tokens
// there are.
constexpr std::string_view kKelvinSign = "\xe2\x84\xaa";  // U+212A, lower case "k"
constexpr std::string_view kDottedI =
    "\xc4\xb0";  // U+0130, lower case "i" and a combining dot, which separates

constexpr size_t kLongestUnstemmed = 3;

}  // namespace

std::vector<std::string> tokenize(std::string_view text, bool use_stemmer) {
  std::vector<std::string> tokens;
  std::string token;
  const auto finish = [&] {
    if (token.empty()) return;
    if (use_stemmer && token.size() > kLongestUnstemmed) token = porter_stem(std::move(token));
    tokens.push_back(std::move(token));
    token.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      token += c;
    } else if (c >= 'A' && c <= 'Z') {
      token += static_cast<char>(c - 'A' + 'a');
    } else if (text.substr(i).starts_with(kKelvinSign)) {
      token += 'k';
      i += kKelvinSign.size() - 1;
    } else {
      if (text.substr(i).starts_with(kDottedI)) token += 'i';
      finish();
    }
  }
  finish();
  return tokens;
}

}  // namespace pipeline::rouge
