// Figures of all answers and captions of an evaluation, with their intervals.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pipeline/task_types.hpp>

namespace pipeline::answers {

// The answers, each once, with how many gave it: "net (7), netting (3)".
std::string shown_truths(const std::vector<std::string>& truths);

// An answer to a question, or, where there is none, a caption.
struct ScoredAnswer {
  uint64_t picture = 0;  // equal where answers are about the same picture
  bool is_caption = false;
  double exact = 0, f1 = 0;
  std::optional<double> vqa;  // where several people answered a question
  std::string text;           // a caption, which is scored beside all others
  std::vector<std::string> truths;

  ScoredAnswer() = default;
  // `truths`: what people answered, one of them or several.
  ScoredAnswer(uint64_t picture, bool is_caption, std::vector<std::string> truths,
               const std::string& written);
  std::string pack() const;
  static ScoredAnswer unpack(std::string_view bytes);
};

// chrF and CIDEr-D of the captions, and 95% intervals of all figures, which are over pictures: what is said
// of one is not independent. on_draw: called often; may throw to stop.
void report_answers(const std::vector<ScoredAnswer>& answers, const ReportSink& sink,
                    const std::function<void()>& on_draw);

// The answers that somebody gives who has read the training data and sees no picture.
class MajorityAnswers {
 public:
  void add(const std::string& question, const std::string& answer);  // of the training data
  // The most frequent answer to the question, of equally frequent ones the first in the alphabet; to a
  // question that was never asked, the most frequent one of all.
  const std::string& answer(const std::string& question) const;
  // Whether the question is among those that are asked most, so that a table of them stays short.
  bool is_common(const std::string& question) const;

 private:
  struct Counts {
    std::map<std::string, uint64_t> of;
    std::string best;
    uint64_t most = 0, all = 0;
    void add(const std::string& answer);
  };
  std::map<std::string, Counts> by_question_;
  Counts all_;
};

}  // namespace pipeline::answers
