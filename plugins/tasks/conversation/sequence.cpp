#include "plugins/tasks/conversation/sequence.hpp"

#include <algorithm>
#include <functional>

#include "plugins/data/records/pairs.hpp"

namespace pipeline::tasks::conversation {

using pipeline::chat::fits;

namespace {

bool is_instruction(const Turn& turn) { return turn.role == "system" || turn.role == "developer"; }

// The oldest questions with their answers may be taken away: where each of them begins, and then the last
// one, which stays.
std::vector<size_t> questions_of(const Conversation& conversation) {
  const auto& turns = conversation.turns;
  std::vector<size_t> all;
  for (size_t i = 0; i < turns.size(); ++i)
    if (all.empty() ? !is_instruction(turns[i]) : turns[i].role == "user") all.push_back(i);
  return all;
}

// A conversation that does not fit, without as few of its oldest questions as makes it fit; without all but
// the last one where nothing helps.
Conversation shortened(const Conversation& conversation,
                       const std::function<bool(const Conversation& shorter)>& fits) {
  const std::vector<size_t> questions = questions_of(conversation);
  if (questions.size() < 2) return conversation;
  const auto without = [&](size_t count) {
    Conversation kept = conversation;
    kept.turns.erase(kept.turns.begin() + static_cast<std::ptrdiff_t>(questions[0]),
                     kept.turns.begin() + static_cast<std::ptrdiff_t>(questions[count]));
    return kept;
  };
  return without(
      pipeline::chat::fewest(1, questions.size() - 1, [&](size_t count) { return fits(without(count)); }));
}

}  // namespace

Learn learn_named(std::string_view name) {
  return name == "last" ? Learn::kLastAnswer : name == "all" ? Learn::kAll : Learn::kAnswers;
}

ChatTokens tokens_of(const Conversation& conversation, const ChatFormat& format) {
  return conversation.is_plain_text() ? format.text_tokens(conversation.turns[0].text)
                                      : format.tokens(conversation.variables());
}

Sequence make_sequence(const Conversation& conversation, ChatTokens chat, const ChatFormat& format,
                       int64_t max_tokens, Learn learn) {
  if (learn == Learn::kAll) return pipeline::chat::make_sequence(chat, max_tokens, nullptr);
  Conversation kept = conversation;
  if (learn == Learn::kLastAnswer && !fits(chat, max_tokens)) {
    kept = shortened(conversation, [&](const Conversation& shorter) {
      return fits(tokens_of(shorter, format), max_tokens);
    });
    chat = tokens_of(kept, format);
  }
  const size_t last = answered_turn(kept);
  Sequence result = pipeline::chat::make_sequence(chat, max_tokens, [&](size_t turn) {
    return kept.turns.at(turn).is_learnt && (learn == Learn::kAnswers || turn == last);
  });
  result.is_cut |= kept.turns.size() < conversation.turns.size();
  return result;
}

std::vector<std::vector<int32_t>> parts_of(const Sequence& sequence) {
  std::vector<std::vector<int32_t>> parts;
  const auto add = [&](int64_t token, bool is_learnt) {
    if (parts.size() % 2 == (is_learnt ? 1 : 0)) parts.emplace_back();
    parts.back().push_back(static_cast<int32_t>(token));
  };
  for (size_t i = 0; i < sequence.tokens.size(); ++i)
    add(sequence.tokens[i], i > 0 && sequence.targets[i - 1] >= 0);
  if (!sequence.targets.empty() && sequence.targets.back() >= 0)
    add(sequence.targets.back(), true);  // a target that nothing reads
  return parts;
}

std::string pack_sequence(const Sequence& sequence, const Conversation& conversation,
                          uint32_t vocabulary_size) {
  return stores::pack_tokens(parts_of(sequence), conversation.pack(), vocabulary_size);
}

text::Sequence sequence_of(std::span<const stores::TokenView> parts) {
  text::Sequence result;
  for (size_t part = 0; part < parts.size(); ++part) {
    const size_t begin = result.tokens.size();
    parts[part].append_to(result.tokens, parts[part].size());
    for (size_t i = std::max<size_t>(begin, 1); i < result.tokens.size(); ++i)
      result.targets.push_back(part % 2 == 1 ? result.tokens[i] : -1);
  }
  if (!result.targets.empty() && result.targets.back() >= 0)
    result.tokens.pop_back();  // a target alone
  else if (!result.tokens.empty())
    result.targets.push_back(-1);
  return result;
}

Conversation conversation_of(const stores::TokenSample& sample) {
  return Conversation::unpack(sample.beside);
}

size_t answered_turn(const Conversation& conversation) {
  const auto& turns = conversation.turns;
  return !turns.empty() && (turns.back().is_assistant() || conversation.is_plain_text()) ? turns.size() - 1
                                                                                         : turns.size();
}

std::vector<int64_t> make_prompt(const Conversation& conversation, size_t turn, const ChatFormat& format,
                                 int64_t max_tokens, int64_t new_tokens) {
  const auto room = static_cast<size_t>(std::max<int64_t>(max_tokens - new_tokens, 1));
  if (conversation.is_plain_text()) {
    std::vector<int64_t> tokens = format.text_tokens(conversation.turns[0].text).tokens;
    tokens.pop_back();  // the end
    if (tokens.size() > room) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(room));
    return tokens;
  }
  Conversation asked = conversation;
  asked.turns.resize(std::min(turn, asked.turns.size()));
  std::vector<int64_t> tokens = format.prompt(asked.variables());
  if (tokens.size() <= room) return tokens;
  tokens = format.prompt(shortened(asked, [&](const Conversation& shorter) {
                           return format.prompt(shorter.variables()).size() <= room;
                         }).variables());
  return tokens.size() <= room ? tokens : std::vector<int64_t>();
}

const std::string& first_question(const Conversation& conversation) {
  for (const Turn& turn : conversation.turns)
    if (turn.role == "user") return turn.text;
  return conversation.turns.front().text;
}

std::string problem_of(const Conversation& conversation, bool answer_required) {
  if (!conversation.images.empty()) return "a picture, which this task does not see: the task vlm does";
  if (conversation.turns.empty()) return "no turns";
  for (const Turn& turn : conversation.turns) {
    for (const std::string_view mark :
         {pipeline::chat::kGuard, pipeline::chat::kAnswerMark, pipeline::chat::kPictureMark})
      if (turn.text.find(mark) != std::string::npos) return "a character that no text has (U+FDD0 to U+FDD2)";
    const bool may_be_empty = !turn.more.empty() || is_instruction(turn) || turn.role == "tool";
    if (!may_be_empty && records::is_blank(turn.text))
      return turn.is_assistant() ? "an answer that is empty"
                                 : "a turn of the " + turn.role + " that is empty";
  }
  if (conversation.is_plain_text()) return "";
  if (answer_required && std::ranges::none_of(conversation.turns, &Turn::is_assistant))
    return "no turn of the assistant";
  if (answer_required && std::ranges::none_of(conversation.turns, [](const Turn& turn) {
        return turn.is_assistant() && turn.is_learnt;
      }))
    return "no answer that is learnt: their \"weight\" is 0";
  return "";
}

std::string problem_of(const Conversation& conversation, const ChatTokens& chat) {
  if (conversation.is_plain_text()) return "";
  std::vector<size_t> tokens_of_turn(conversation.turns.size());
  for (const int32_t turn : chat.answer_of)
    if (turn >= 0) ++tokens_of_turn.at(static_cast<size_t>(turn));
  for (size_t i = 0; i < conversation.turns.size(); ++i)
    if (conversation.turns[i].is_assistant() && tokens_of_turn[i] < 2)  // its end alone
      return "an answer of which the chat template writes nothing";
  return "";
}

}  // namespace pipeline::tasks::conversation
