#include "plugins/tasks/chat/data/sequence.hpp"

#include <pipeline/error.hpp>

#include <algorithm>

#include "plugins/data/text_pairs/pairs.hpp"

namespace pipeline::chat {
namespace {

bool is_instruction(const Turn& turn) { return turn.role == "system" || turn.role == "developer"; }

// Takes away the oldest question with its answer; false: one question is left.
bool drop_oldest(Conversation& conversation) {
  auto& turns = conversation.turns;
  const auto first = std::ranges::find_if_not(turns, is_instruction);
  const auto next = std::find_if(first + (first == turns.end() ? 0 : 1), turns.end(),
                                 [](const Turn& turn) { return turn.role == "user"; });
  if (next == turns.end()) return false;
  turns.erase(first, next);
  return true;
}

ChatTokens tokens_of(const Conversation& conversation, const ChatFormat& format) {
  return conversation.is_plain_text() ? format.text_tokens(conversation.turns[0].text)
                                      : format.tokens(conversation.variables());
}

// The length to which the tokens are cut at the end of an answer, so that they have at most `most`; else 0.
size_t end_of_answer(const ChatTokens& chat, size_t most) {
  for (size_t end = std::min(most, chat.tokens.size()); end > 0; --end)
    if (chat.answer_of[end - 1] >= 0 &&
        (end == chat.tokens.size() || chat.answer_of[end] != chat.answer_of[end - 1]))
      return end;
  return 0;
}

}  // namespace

Learn learn_named(std::string_view name) {
  return name == "last" ? Learn::kLastAnswer : name == "all" ? Learn::kAll : Learn::kAnswers;
}

bool Sequence::has_target() const {
  return std::ranges::any_of(targets, [](int64_t target) { return target >= 0; });
}

Sequence make_sequence(const Conversation& conversation, const ChatFormat& format, int64_t max_tokens,
                       Learn learn) {
  const size_t most = static_cast<size_t>(max_tokens) + 1;  // the last one is a target alone
  ChatTokens chat = tokens_of(conversation, format);
  Sequence result;
  Conversation kept = conversation;
  while (learn == Learn::kLastAnswer && end_of_answer(chat, chat.tokens.size()) > most && drop_oldest(kept)) {
    chat = tokens_of(kept, format);
    result.is_cut = true;
  }
  if (size_t end = end_of_answer(chat, chat.tokens.size()); end > most) {
    end = end_of_answer(chat, most);
    chat.tokens.resize(end > 0 ? end : most);
    result.is_cut = true;
  } else if (learn != Learn::kAll && end > 0) {
    chat.tokens.resize(end);  // what follows the last answer teaches nothing
  }
  result.is_cut |= chat.tokens.size() > most;
  chat.tokens.resize(std::min(chat.tokens.size(), most));
  chat.answer_of.resize(chat.tokens.size());
  const size_t last = answered_turn(kept);
  const auto is_learnt = [&](size_t i) {
    const int32_t answer = chat.answer_of[i];
    if (learn == Learn::kAll) return true;
    if (answer < 0) return false;
    const auto turn = static_cast<size_t>(answer);
    return kept.turns.at(turn).is_learnt && (learn == Learn::kAnswers || turn == last);
  };
  const size_t inputs = chat.tokens.empty() ? 0 : chat.tokens.size() - 1;
  for (size_t i = 0; i < inputs; ++i) result.targets.push_back(is_learnt(i + 1) ? chat.tokens[i + 1] : -1);
  result.tokens.assign(chat.tokens.begin(), chat.tokens.begin() + static_cast<std::ptrdiff_t>(inputs));
  return result;
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
  do {
    std::vector<int64_t> tokens = format.prompt(asked.variables());
    if (tokens.size() <= room) return tokens;
  } while (drop_oldest(asked));
  return {};
}

std::string problem_of(const Conversation& conversation, bool answer_required, const ChatFormat* format) {
  if (!conversation.image.empty()) return "a picture, which this task does not see: the task vlm does";
  if (conversation.turns.empty()) return "no turns";
  for (const Turn& turn : conversation.turns) {
    if (turn.text.find(kGuard) != std::string::npos || turn.text.find(kAnswerMark) != std::string::npos)
      return "a character that no text has (U+FDD0 or U+FDD1)";
    const bool may_be_empty = !turn.more.empty() || is_instruction(turn) || turn.role == "tool";
    if (!may_be_empty && text_pairs::is_blank(turn.text))
      return turn.is_assistant() ? "an answer that is empty"
                                 : "a turn of the " + turn.role + " that is empty";
  }
  if (conversation.is_plain_text()) return "";
  if (answer_required && std::ranges::none_of(conversation.turns, &Turn::is_assistant))
    return "no turn of the assistant";
  if (format == nullptr) return "";
  try {
    static_cast<void>(answer_required ? format->tokens(conversation.variables()).tokens
                                      : format->prompt(conversation.variables()));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace pipeline::chat
