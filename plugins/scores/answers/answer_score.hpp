// How an answer compares with the true one, as SQuAD counts it (Rajpurkar et al., arXiv:1606.05250).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::answers {

// Lower case, without punctuation, articles (a, an, the) and extra space. Letters beyond ASCII stay as they
// are.
std::vector<std::string> words_of(std::string_view answer);

struct AnswerScore {
  double exact = 0;  // 1: the same words in the same order
  double f1 = 0;     // of the words they share, each as often as both have it
};
AnswerScore score_answer(std::string_view truth, std::string_view answer);
// With several true answers, each figure is that of the one that it is best with.
AnswerScore score_answer(std::span<const std::string> truths, std::string_view answer);

}  // namespace pipeline::answers
