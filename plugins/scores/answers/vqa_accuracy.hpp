// How an answer compares with those of several people, as the VQA challenge counts it (Antol et al.,
// arXiv:1505.00468).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pipeline::answers {

// An answer as the challenge's evaluation (vqaEval.py of GT-Vision-Lab/VQA) writes it to compare: lower case,
// numbers up to ten as digits, no articles and hardly any punctuation, and contractions with their
// apostrophe.
std::string vqa_form(std::string_view answer);

// The mean, over all of the people but one, of min(as many as gave this answer / 3, 1). Both sides are
// written in the same form; the challenge's truths are in most of it already.
double vqa_accuracy(std::span<const std::string> truths, std::string_view answer);

}  // namespace pipeline::answers
