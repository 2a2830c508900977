#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::answers {

// Lower case, without punctuation, articles (a, an, the) and extra space. Letters beyond ASCII stay as they
// are.
std::vector<std::string> words_of(std::string_view answer);

// How an answer compares with the true one, as SQuAD counts it (Rajpurkar et al., arXiv:1606.05250).
struct AnswerScore {
  double exact = 0;  // 1: the same words in the same order
  double f1 = 0;     // of the words they share, each as often as both have it
};
AnswerScore score_answer(std::string_view truth, std::string_view answer);
// With several true answers, each figure is that of the one that it is best with.
AnswerScore score_answer(std::span<const std::string> truths, std::string_view answer);

// How an answer compares with those of several people, as the VQA challenge counts it (Antol et al.,
// arXiv:1505.00468).

// An answer as the challenge's evaluation (vqaEval.py of GT-Vision-Lab/VQA) writes it to compare: lower case,
// numbers up to ten as digits, no articles and hardly any punctuation, and contractions with their
// apostrophe.
std::string vqa_form(std::string_view answer);

// The mean, over all of the people but one, of min(as many as gave this answer / 3, 1). Both sides are
// written in the same form; the challenge's truths are in most of it already.
double vqa_accuracy(std::span<const std::string> truths, std::string_view answer);

// chrF: how many n-grams of characters a text shares with the true one (Popović 2015), as sacrebleu counts.

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

// CIDEr-D: how near captions are to those that people wrote of the same pictures, and of no others (Vedantam
// et al., arXiv:1411.5726).
struct WrittenCaption {
  std::string text;
  std::vector<std::string> truths;  // of the same picture
};

// Words in lower case without punctuation, clitics by themselves (it 's), as COCO's evaluation has them. Its
// tokenizer, Stanford's, has more rules, for abbreviations and for currencies.
std::vector<std::string> caption_words(std::string_view text);

// The score of each caption, from 0 to 10. Words are weighed by how few of these pictures have them in a true
// caption, so that a score depends on all of them, and is 0 where there is one picture alone.
std::vector<double> cider_d(std::span<const WrittenCaption> captions);

}  // namespace pipeline::answers
