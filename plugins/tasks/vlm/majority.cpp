#include "plugins/tasks/vlm/majority.hpp"

namespace pipeline::tasks::vlm {

using picture_texts::kImageMark;

std::string plain_question(const std::string& text) {
  std::string plain = text;
  for (size_t at = 0; (at = plain.find(kImageMark, at)) != std::string::npos;)
    plain.erase(at, kImageMark.size());
  const size_t begin = plain.find_first_not_of(" \n"), end = plain.find_last_not_of(" \n");
  return begin == std::string::npos ? "" : plain.substr(begin, end - begin + 1);
}

void MajorityAnswers::Counts::add(const std::string& answer) {
  ++all;
  const uint64_t count = ++of[answer];
  if (count > most || (count == most && answer < best)) most = count, best = answer;
}

void MajorityAnswers::add(const Conversation& conversation) {
  for (size_t i = 0; i + 1 < conversation.turns.size(); i += 2) {
    by_question_[plain_question(conversation.turns[i].text)].add(conversation.turns[i + 1].text);
    all_.add(conversation.turns[i + 1].text);
  }
}

const std::string& MajorityAnswers::answer(const std::string& question) const {
  const auto found = by_question_.find(question);
  return found == by_question_.end() ? all_.best : found->second.best;
}

bool MajorityAnswers::is_common(const std::string& question) const {
  constexpr size_t kMost = 32;
  const auto found = by_question_.find(question);
  if (found == by_question_.end()) return false;
  size_t more = 0;
  for (const auto& [other, counts] : by_question_)
    if (counts.all > found->second.all || (counts.all == found->second.all && other < question)) ++more;
  return more < kMost;
}

}  // namespace pipeline::tasks::vlm
