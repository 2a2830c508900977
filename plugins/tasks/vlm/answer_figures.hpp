// Figures of all answers and captions of an evaluation, with their intervals.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pipeline/task_types.hpp>

#include "plugins/data/picture_texts/conversation.hpp"

namespace pipeline::tasks::vlm {

using picture_texts::Conversation;

// What people answered to the first question: one, or several.
std::vector<std::string> truths_of(const Conversation& conversation);
// The answers, each once, with how many gave it: "net (7), netting (3)".
std::string shown_truths(const std::vector<std::string>& truths);

// An answer to the first question, or, where there is none, a caption.
struct ScoredAnswer {
  uint64_t picture = 0;  // equal where answers are about the same picture
  bool is_caption = false;
  double exact = 0, f1 = 0;
  std::optional<double> vqa;  // where several people answered a question
  std::string text;           // a caption, which is scored beside all others
  std::vector<std::string> truths;

  ScoredAnswer() = default;
  ScoredAnswer(const Conversation& conversation, bool is_caption, const std::string& written);
  std::string pack() const;
  static ScoredAnswer unpack(std::string_view bytes);
};

// chrF and CIDEr-D of the captions, and 95% intervals of all figures, which are over pictures: what is said
// of one is not independent. on_draw: called often; may throw to stop.
void report_answers(const std::vector<ScoredAnswer>& answers, const ReportSink& sink,
                    const std::function<void()>& on_draw);

}  // namespace pipeline::tasks::vlm
