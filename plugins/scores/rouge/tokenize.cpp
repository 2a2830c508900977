#include "plugins/scores/rouge/rouge.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace pipeline::rouge {
namespace {

// M. F. Porter, "An algorithm for suffix stripping", Program 14.3 (1980): the terms (consonant, measure, *d,
// *o) and the numbers of the steps are his. Where NLTK departs from the paper the code says so.

bool is_vowel_letter(char c) { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'; }

// A y after a consonant is a vowel; at the start, and after a vowel, it is a consonant. Digits are
// consonants.
bool is_consonant(std::string_view word, size_t i) {
  bool flip = false;
  for (; i > 0 && word[i] == 'y'; --i) flip = !flip;
  return is_vowel_letter(word[i]) == flip;
}

bool next_is_consonant(char c, bool previous_is_consonant, bool first) {
  if (c == 'y') return first || !previous_is_consonant;
  return !is_vowel_letter(c);
}

// m, the number of times a vowel is followed by a consonant.
int measure(std::string_view stem) {
  int m = 0;
  bool previous = true;
  for (size_t i = 0; i < stem.size(); ++i) {
    const bool consonant = next_is_consonant(stem[i], previous, i == 0);
    if (consonant && !previous) ++m;
    previous = consonant;
  }
  return m;
}

bool contains_vowel(std::string_view stem) {
  bool previous = true;
  for (size_t i = 0; i < stem.size(); ++i) {
    previous = next_is_consonant(stem[i], previous, i == 0);
    if (!previous) return true;
  }
  return false;
}

// *d
bool ends_in_double_consonant(std::string_view word) {
  const size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && is_consonant(word, n - 1);
}

// *o: consonant, vowel, consonant other than w, x, y. NLTK: or the whole word is a vowel and a consonant.
bool ends_in_cvc(std::string_view word) {
  const size_t n = word.size();
  if (n == 2) return !is_consonant(word, 0) && is_consonant(word, 1);
  if (n < 3) return false;
  const char last = word[n - 1];
  return is_consonant(word, n - 3) && !is_consonant(word, n - 2) && is_consonant(word, n - 1) &&
         last != 'w' && last != 'x' && last != 'y';
}

void replace_end(std::string& word, size_t length, std::string_view with) {
  word.resize(word.size() - length);
  word += with;
}

struct Rule {
  std::string_view suffix;
  std::string_view replacement;
};

// The first rule whose suffix fits decides: it is applied if the stem before the suffix has a measure above
// `above`, and no later rule is tried in either case.
void apply_first(std::string& word, std::span<const Rule> rules, int above) {
  for (const auto& [suffix, replacement] : rules) {
    if (!word.ends_with(suffix)) continue;
    if (measure(std::string_view(word).substr(0, word.size() - suffix.size())) > above) {
      replace_end(word, suffix.size(), replacement);
    }
    return;
  }
}

void step_1a(std::string& word) {
  if (word.ends_with("ies")) {
    replace_end(word, 3, word.size() == 4 ? "ie" : "i");  // NLTK: dies -> die
  } else if (word.ends_with("sses")) {
    replace_end(word, 2, "");
  } else if (word.ends_with('s') && !word.ends_with("ss")) {
    replace_end(word, 1, "");
  }
}

void step_1b(std::string& word) {
  if (word.ends_with("ied")) {
    replace_end(word, 3, word.size() == 4 ? "ie" : "i");  // NLTK: died -> die
    return;
  }
  if (word.ends_with("eed")) {
    if (measure(std::string_view(word).substr(0, word.size() - 3)) > 0) replace_end(word, 1, "");
    return;
  }
  const size_t suffix = word.ends_with("ed") ? 2 : word.ends_with("ing") ? 3 : 0;
  if (suffix == 0 || !contains_vowel(std::string_view(word).substr(0, word.size() - suffix))) return;
  replace_end(word, suffix, "");
  if (word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz")) {
    word += 'e';
  } else if (ends_in_double_consonant(word)) {
    const char last = word.back();
    if (last != 'l' && last != 's' && last != 'z') word.pop_back();
  } else if (measure(word) == 1 && ends_in_cvc(word)) {
    word += 'e';
  }
}

// NLTK: only after a consonant that is not the whole stem (happy -> happi, enjoy -> enjoy, by -> by).
void step_1c(std::string& word) {
  if (word.size() > 2 && word.ends_with('y') && is_consonant(word, word.size() - 2)) word.back() = 'i';
}

constexpr Rule kStep2[] = {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
                           {"izer", "ize"},    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"},
                           {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
                           {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"},
                           {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"},
                           {"fulli", "ful"}};
constexpr Rule kStep3[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                           {"ical", "ic"},  {"ful", ""},   {"ness", ""}};
constexpr Rule kStep4[] = {{"al", ""},   {"ance", ""}, {"ence", ""}, {"er", ""},    {"ic", ""},
                           {"able", ""}, {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""},
                           {"ent", ""},  {"ion", ""},  {"ou", ""},   {"ism", ""},   {"ate", ""},
                           {"iti", ""},  {"ous", ""},  {"ive", ""},  {"ize", ""}};

void step_2(std::string& word) {
  // NLTK: alli -> al comes first, and its result goes through the step again (rationally -> rational ->
  // ration).
  while (word.ends_with("alli") && measure(std::string_view(word).substr(0, word.size() - 4)) > 0)
    replace_end(word, 2, "");
  if (word.ends_with("logi")) {
    // NLTK: the l counts as part of the stem, so that short stems (geo, theo) qualify.
    if (measure(std::string_view(word).substr(0, word.size() - 3)) > 0) word.pop_back();
    return;
  }
  apply_first(word, kStep2, 0);
}

void step_4(std::string& word) {
  if (word.ends_with("ion")) {
    const char before = word.size() > 3 ? word[word.size() - 4] : '\0';
    if (before != 's' && before != 't') return;
  }
  apply_first(word, kStep4, 1);
}

void step_5(std::string& word) {
  if (word.ends_with('e')) {
    const auto stem = std::string_view(word).substr(0, word.size() - 1);
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_in_cvc(stem))) word.pop_back();
  }
  if (word.ends_with("ll") && measure(std::string_view(word).substr(0, word.size() - 1)) > 1) word.pop_back();
}

constexpr std::pair<std::string_view, std::string_view> kIrregular[] = {
    {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
    {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
    {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
    {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"}};

// Two characters outside ASCII have an ASCII letter in their lower case; no other can change which tokens
// there are.
constexpr std::string_view kKelvinSign = "\xe2\x84\xaa";  // U+212A, lower case "k"
constexpr std::string_view kDottedI =
    "\xc4\xb0";  // U+0130, lower case "i" and a combining dot, which separates

constexpr size_t kLongestUnstemmed = 3;

}  // namespace

std::string porter_stem(std::string word) {
  for (const auto& [form, stem] : kIrregular) {
    if (word == form) return std::string(stem);
  }
  if (word.size() <= 2) return word;
  step_1a(word);
  step_1b(word);
  step_1c(word);
  step_2(word);
  apply_first(word, kStep3, 0);
  step_4(word);
  step_5(word);
  return word;
}

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
