#include "plugins/scores/rouge/rouge.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <unordered_map>

namespace pipeline::rouge {
namespace {

constexpr size_t kWordBits = 64;

// Tokens as numbers that are equal where the tokens are: everything below compares numbers.
class Vocabulary {
 public:
  std::vector<uint32_t> number(const std::vector<std::string>& tokens) {
    std::vector<uint32_t> numbers;
    numbers.reserve(tokens.size());
    for (const auto& token : tokens) {
      numbers.push_back(numbers_.emplace(token, static_cast<uint32_t>(numbers_.size())).first->second);
    }
    return numbers;
  }
  size_t size() const { return numbers_.size(); }

 private:
  std::unordered_map<std::string, uint32_t> numbers_;
};

Score make_score(size_t common, size_t in_target, size_t in_prediction) {
  Score score;
  score.precision = static_cast<double>(common) / static_cast<double>(std::max<size_t>(in_prediction, 1));
  score.recall = static_cast<double>(common) / static_cast<double>(std::max<size_t>(in_target, 1));
  if (score.precision + score.recall > 0) {
    score.f = 2 * score.precision * score.recall / (score.precision + score.recall);
  }
  return score;
}

// The n-grams of the text as windows into it, sorted, so that equal ones are neighbours.
std::vector<Tokens> sorted_ngrams(Tokens tokens, size_t n) {
  std::vector<Tokens> ngrams;
  for (size_t i = 0; i + n <= tokens.size(); ++i) ngrams.push_back(tokens.subspan(i, n));
  std::sort(ngrams.begin(), ngrams.end(),
            [](Tokens a, Tokens b) { return std::ranges::lexicographical_compare(a, b); });
  return ngrams;
}

Score score_ngrams(Tokens target, Tokens prediction, size_t n) {
  const auto a = sorted_ngrams(target, n), b = sorted_ngrams(prediction, n);
  size_t common = 0;  // with multiplicity: the sum of the smaller counts
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (std::ranges::equal(a[i], b[j])) {
      ++common, ++i, ++j;
    } else if (std::ranges::lexicographical_compare(a[i], b[j])) {
      ++i;
    } else {
      ++j;
    }
  }
  return make_score(common, a.size(), b.size());
}

Score score_lcs(Tokens target, Tokens prediction) {
  return make_score(LcsTable(target, prediction).length(), target.size(), prediction.size());
}

std::vector<std::vector<uint32_t>> tokenize_lines(std::string_view text, bool use_stemmer,
                                                  Vocabulary& vocabulary) {
  std::vector<std::vector<uint32_t>> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(vocabulary.number(tokenize(text.substr(begin, end - begin), use_stemmer)));
    begin = end + 1;
  }
  return lines;
}

Score score_lines(std::string_view target, std::string_view prediction, bool use_stemmer) {
  Vocabulary vocabulary;
  const auto target_lines = tokenize_lines(target, use_stemmer, vocabulary);
  const auto prediction_lines = tokenize_lines(prediction, use_stemmer, vocabulary);

  // A token counts at most as often as both texts have it, however many lines it is common to.
  std::vector<size_t> left_in_target(vocabulary.size()), left_in_prediction(vocabulary.size());
  size_t in_target = 0, in_prediction = 0;
  for (const auto& line : target_lines) {
    in_target += line.size();
    for (const uint32_t token : line) ++left_in_target[token];
  }
  for (const auto& line : prediction_lines) {
    in_prediction += line.size();
    for (const uint32_t token : line) ++left_in_prediction[token];
  }

  size_t common = 0;
  for (const auto& line : target_lines) {
    std::vector<bool> in_union(line.size());
    for (const auto& other : prediction_lines) {
      for (const size_t position : LcsTable(line, other).positions()) in_union[position] = true;
    }
    for (size_t i = 0; i < line.size(); ++i) {
      if (!in_union[i] || left_in_target[line[i]] == 0 || left_in_prediction[line[i]] == 0) continue;
      --left_in_target[line[i]];
      --left_in_prediction[line[i]];
      ++common;
    }
  }
  return make_score(common, in_target, in_prediction);
}

bool is_ngram_type(std::string_view type) {
  return type.size() == 6 && type.starts_with("rouge") && type[5] >= '1' && type[5] <= '9';
}

// Bytes of white space at the start of the text: one character, or none. The characters are those of Python's
// str.isspace().
size_t space_at(std::string_view text) {
  const auto c = static_cast<unsigned char>(text[0]);
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f) ? 1 : 0;
  static constexpr std::string_view kSpaces[] = {
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  for (const auto space : kSpaces) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

}  // namespace

LcsTable::LcsTable(Tokens a, Tokens b)
    : a_(a),
      b_(b),
      words_((b.size() + kWordBits - 1) / kWordBits),
      rows_((a.size() + 1) * words_, ~uint64_t{0}) {
  std::unordered_map<uint32_t, size_t> slot_of;  // token of b -> its bit mask of positions in b
  std::vector<uint64_t> masks;
  for (size_t j = 0; j < b.size(); ++j) {
    const auto [entry, fresh] = slot_of.emplace(b[j], slot_of.size());
    if (fresh) masks.resize(masks.size() + words_);
    masks[entry->second * words_ + j / kWordBits] |= uint64_t{1} << (j % kWordBits);
  }
  for (size_t i = 0; i < a.size(); ++i) {
    const uint64_t* above = rows_.data() + i * words_;
    uint64_t* row = rows_.data() + (i + 1) * words_;
    const auto entry = slot_of.find(a[i]);
    if (entry == slot_of.end()) {
      std::copy_n(above, words_, row);
      continue;
    }
    const uint64_t* matches = masks.data() + entry->second * words_;
    uint64_t carry = 0;
    for (size_t w = 0; w < words_; ++w) {
      const uint64_t hit = above[w] & matches[w];
      const uint64_t partial = above[w] + hit;
      const uint64_t sum = partial + carry;
      carry = static_cast<uint64_t>(partial < hit) | static_cast<uint64_t>(sum < partial);
      row[w] = sum | (above[w] & ~hit);
    }
  }
}

size_t LcsTable::length(size_t i, size_t j) const {
  const uint64_t* row = rows_.data() + i * words_;
  size_t zeros = 0;
  for (size_t w = 0; w < j / kWordBits; ++w) zeros += static_cast<size_t>(std::popcount(~row[w]));
  if (j % kWordBits != 0) {
    zeros += static_cast<size_t>(std::popcount(~row[j / kWordBits] & ((uint64_t{1} << (j % kWordBits)) - 1)));
  }
  return zeros;
}

std::vector<size_t> LcsTable::positions() const {
  std::vector<size_t> taken;
  size_t i = a_.size(), j = b_.size();
  while (i > 0 && j > 0) {
    if (a_[i - 1] == b_[j - 1]) {
      taken.push_back(--i);
      --j;
    } else if (length(i, j - 1) > length(i - 1, j)) {
      --j;
    } else {
      --i;
    }
  }
  std::reverse(taken.begin(), taken.end());
  return taken;
}

Scorer::Scorer(std::vector<std::string> types, bool use_stemmer)
    : types_(std::move(types)), use_stemmer_(use_stemmer) {
  for (const auto& type : types_) {
    if (is_ngram_type(type) || type == "rougeL" || type == "rougeLsum") continue;
    throw std::invalid_argument("ROUGE type \"" + type + "\": must be rouge1 to rouge9, rougeL or rougeLsum");
  }
}

std::vector<Score> Scorer::score(std::string_view target, std::string_view prediction) const {
  Vocabulary vocabulary;
  const auto a = vocabulary.number(tokenize(target, use_stemmer_));
  const auto b = vocabulary.number(tokenize(prediction, use_stemmer_));
  std::vector<Score> scores;
  for (const auto& type : types_) {
    if (type == "rougeL") {
      scores.push_back(score_lcs(a, b));
    } else if (type == "rougeLsum") {
      scores.push_back(score_lines(target, prediction, use_stemmer_));
    } else {
      scores.push_back(score_ngrams(a, b, static_cast<size_t>(type.back() - '0')));
    }
  }
  return scores;
}

std::string lead_words(std::string_view document, size_t count) {
  std::string lead;
  size_t words = 0;
  bool in_word = false;
  for (size_t i = 0; i < document.size();) {
    if (const size_t space = space_at(document.substr(i))) {
      in_word = false;
      i += space;
      continue;
    }
    if (!in_word) {
      if (words == count) break;
      if (words++ > 0) lead += ' ';
      in_word = true;
    }
    lead += document[i++];
  }
  return lead;
}

}  // namespace pipeline::rouge
