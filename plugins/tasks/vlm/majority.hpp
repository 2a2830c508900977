// The answers that somebody gives who has read the training data and sees no picture.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "plugins/data/picture_texts/conversation.hpp"

namespace pipeline::tasks::vlm {

using picture_texts::Conversation;

// A question without the marks of its pictures.
std::string plain_question(const std::string& text);

class MajorityAnswers {
 public:
  void add(const Conversation& conversation);  // of the training data
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

}  // namespace pipeline::tasks::vlm
