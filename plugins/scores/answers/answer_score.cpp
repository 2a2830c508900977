#include "plugins/scores/answers/answer_score.hpp"

#include <algorithm>
#include <map>

namespace pipeline::answers {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

}  // namespace

std::vector<std::string> words_of(std::string_view answer) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") words.push_back(word);
    word.clear();
  };
  for (const char c : answer) {
    if (is_space(c))
      end_word();
    else if (!is_punctuation(c))
      word += lower(c);
  }
  end_word();
  return words;
}

AnswerScore score_answer(std::string_view truth, std::string_view answer) {
  const std::vector<std::string> wanted = words_of(truth), given = words_of(answer);
  if (wanted.empty() || given.empty()) {
    const double same = wanted.empty() && given.empty() ? 1 : 0;
    return {same, same};
  }
  std::map<std::string_view, int64_t> left;
  for (const std::string& word : wanted) ++left[word];
  int64_t shared = 0;
  for (const std::string& word : given) shared += left[word]-- > 0 ? 1 : 0;
  const double total = static_cast<double>(wanted.size() + given.size());
  return {wanted == given ? 1.0 : 0.0, 2 * static_cast<double>(shared) / total};
}

AnswerScore score_answer(std::span<const std::string> truths, std::string_view answer) {
  AnswerScore best;
  for (const std::string& truth : truths) {
    const AnswerScore score = score_answer(truth, answer);
    best = {std::max(best.exact, score.exact), std::max(best.f1, score.f1)};
  }
  return best;
}

}  // namespace pipeline::answers
