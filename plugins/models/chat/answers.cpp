// Which part of a conversation's text each message of the assistant is.
#include <pipeline/error.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include "plugins/models/chat/chat_format.hpp"
#include "plugins/models/chat/value.hpp"

namespace pipeline::chat {
namespace {

using nlohmann::ordered_json;

const std::string kSpaces = " \t\n\v\f\r";

std::string_view trimmed(std::string_view text) { return stripped(text, true, true, &kSpaces); }

std::string mark_of(size_t number) {
  return std::string(kAnswerMark) + std::to_string(number) + std::string(kAnswerMark);
}

// The parts of a text between marks; nothing where they are not those of `messages`, each so often, in order.
std::vector<std::string> parts_between_marks(std::string_view text, size_t messages, size_t times) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < messages * times; ++i) {
    const std::string mark = mark_of(i / times);
    const size_t at = text.find(kAnswerMark);
    if (at == text.npos || !text.substr(at).starts_with(mark)) return {};
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + mark.size());
  }
  parts.emplace_back(text);
  return text.find(kAnswerMark) == text.npos ? parts : std::vector<std::string>();
}

// The text at which a content begins (or ends); nullptr: it is none.
ordered_json* end_of(ordered_json& content, bool is_begin) {
  if (content.is_string()) return &content;
  if (!content.is_array() || content.empty()) return nullptr;
  ordered_json& part = is_begin ? content.front() : content.back();
  const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string();
  return is_text ? &part["text"] : nullptr;
}

// Puts marks around what a content says, with the white space before and behind it or without.
void put_marks(ordered_json& content, size_t number, bool with_space_before, bool with_space_behind) {
  auto& behind = end_of(content, false)->get_ref<std::string&>();
  behind.insert(with_space_behind ? behind.size() : stripped(behind, false, true).size(), mark_of(number));
  auto& before = end_of(content, true)->get_ref<std::string&>();
  before.insert(with_space_before ? 0 : before.size() - stripped(before, true, false).size(),
                mark_of(number));
}

// What a template may look at in a message besides its texts; of objects other than messages and calls, only
// whether they are there.
std::string shape(const ordered_json& value, int depth) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty() ? "''" : "text";
  if (!value.is_structured() || depth == 0) return value.type_name();
  std::string all;
  size_t number = 0;
  for (const auto& [key, item] : value.items()) {
    if (value.is_array() && ++number > 2) break;  // several
    all += (value.is_object() ? key + ":" : "") + shape(item, depth - (value.is_object() ? 1 : 0)) + ",";
  }
  return "(" + all + ")";
}

// Equal for messages of which a template writes the same but for their texts.
std::string kind_of(const ordered_json& messages, size_t at) {
  constexpr int kToArguments = 3;
  std::string kind;
  for (size_t i = at == 0 ? 0 : at - 1; i < std::min(at + 2, messages.size()); ++i)
    kind += messages[i].value("role", "") + shape(messages[i], i == at ? kToArguments : 1);
  return kind;
}

}  // namespace

// The places of special tokens in a text, to be asked for from left to right.
class ChatFormat::SpecialPlaces {
 public:
  SpecialPlaces(std::string_view text, const tokenizer::Tokenizer& tokenizer)
      : text_(text), tokenizer_(tokenizer) {}
  // The first at or behind `from`; its place is counted from there.
  tokenizer::Tokenizer::Special behind(size_t from) {
    if (from < from_ || (found_.bytes > 0 && found_.at < from) || !is_known_) {
      found_ = tokenizer_.first_special(text_.substr(from));
      found_.at += from;
      from_ = from;
      is_known_ = true;
    }
    return {found_.at - from, found_.bytes};
  }

 private:
  std::string_view text_;
  const tokenizer::Tokenizer& tokenizer_;
  size_t from_ = 0;
  tokenizer::Tokenizer::Special found_;
  bool is_known_ = false;
};

// The texts of messages, where the template writes them as they are and nothing else depends on them: then
// marks around a text, and a mark in its place, leave the rest as it was. So a few renderings are enough,
// however many messages there are. Empty: the template is not like that.
std::vector<std::pair<size_t, size_t>> ChatFormat::said(const ordered_json& conversation,
                                                        std::string_view whole,
                                                        const std::vector<size_t>& messages) const try {
  const auto parts = [&](size_t times, const auto& mark) {
    ordered_json marked = conversation;
    for (size_t i = 0; i < messages.size(); ++i) mark(marked["messages"][messages[i]]["content"], i);
    return parts_between_marks(render(marked, false).text, messages.size(), times);
  };
  const std::vector<std::string> alone =
      parts(1, [](ordered_json& content, size_t i) { content = content_of(mark_of(i), content.is_array()); });
  if (alone.empty()) return {};
  // The white space around what is said may be in the text, or the template takes it away: before, behind.
  for (const auto& space : {std::pair(true, true), {false, false}, {true, false}, {false, true}}) {
    const std::vector<std::string> around =
        parts(2, [&](ordered_json& content, size_t i) { put_marks(content, i, space.first, space.second); });
    std::vector<std::pair<size_t, size_t>> found;
    size_t at = 0;
    bool is_same = !around.empty();
    for (size_t i = 0; is_same && i < around.size(); ++i) {
      if (i % 2 == 1) found.emplace_back(at, at + around[i].size());
      is_same = whole.substr(at).starts_with(around[i]) && (i % 2 == 1 || around[i] == alone[i / 2]);
      at += around[i].size();
    }
    if (is_same && at == whole.size()) return found;
  }
  return {};
} catch (const Error&) {  // the template refuses marks
  return {};
}

// The answer of one message by itself: what changes in the text when its content does.
std::optional<ChatFormat::Span> ChatFormat::answer(const ordered_json& conversation, std::string_view whole,
                                                   size_t message, size_t earliest,
                                                   SpecialPlaces& specials) const {
  ordered_json marked = conversation;
  ordered_json& content = marked["messages"][message]["content"];
  content = content_of(kAnswerMark, content.is_array());
  const std::string with_mark = render(marked, false).text;
  const size_t mark = with_mark.find(kAnswerMark);
  if (mark == std::string::npos) return std::nullopt;
  const std::string_view before = std::string_view(with_mark).substr(0, mark),
                         after = std::string_view(with_mark).substr(mark + kAnswerMark.size());
  if (!whole.ends_with(after)) return std::nullopt;
  const auto begin = static_cast<size_t>(std::ranges::mismatch(before, whole).in1 - before.begin());
  return answer_around(whole, {begin, whole.size() - after.size()}, before.size(), message, earliest,
                       specials);
}

// The answer: what is said, with what belongs to it. `content`: where the text before the content ends.
std::optional<ChatFormat::Span> ChatFormat::answer_around(std::string_view whole,
                                                          std::pair<size_t, size_t> said, size_t content,
                                                          size_t message, size_t earliest,
                                                          SpecialPlaces& specials) const {
  Span span{.begin = said.first, .end = said.second, .message = message, .is_ended = false};
  if (span.begin > span.end) return std::nullopt;
  // The model writes all that follows the prompt, such as thoughts.
  const size_t prompt = answer_prompt_.empty() || span.begin < earliest
                            ? std::string::npos
                            : whole.substr(earliest, span.begin - earliest).rfind(answer_prompt_);
  if (prompt != std::string::npos)
    span.begin = earliest + prompt + answer_prompt_.size();
  else if (span.begin < content)
    return std::nullopt;
  else if (whole.substr(0, span.begin).ends_with(answer_start_) &&
           span.begin - answer_start_.size() >= earliest)
    span.begin -= answer_start_.size();
  const std::string_view after = whole.substr(span.end);
  if (!answer_end_.empty() && after.starts_with(answer_end_)) {
    span.end += answer_end_.size();
    span.is_ended = true;
  } else if (const auto special = specials.behind(span.end);
             special.bytes > 0 && trimmed(after.substr(0, special.at)).empty()) {
    span.end += special.at + special.bytes;
    span.is_ended = true;
  }
  return span;
}

// The answer: what the conversation up to the message has more than the prompt for it.
std::optional<ChatFormat::Span> ChatFormat::answer_by_parts(const ordered_json& conversation,
                                                            std::string_view whole, size_t message) const
    try {
  ordered_json part = conversation;
  ordered_json& messages = part["messages"];
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(message) + 1, messages.end());
  const std::string with = render(part, false).text;
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(message));
  const std::string prompt = render(part, true).text;
  if (!whole.starts_with(with) || !with.starts_with(prompt)) return std::nullopt;
  const std::string_view answer = trimmed(std::string_view(with).substr(prompt.size()));
  return Span{.begin = prompt.size(),
              .end = static_cast<size_t>(answer.data() + answer.size() - with.data()),
              .message = message,
              .is_ended = !answer_end_.empty() && answer.ends_with(trimmed(answer_end_))};
} catch (const Error&) {  // the template refuses a part
  return std::nullopt;
}

// The answer: what a message's turn writes behind the prompt, where the template loops over the messages.
std::optional<ChatFormat::Span> ChatFormat::answer_of_turn(const Rendered& whole, size_t message) const {
  if (message + 1 >= whole.turns.size()) return std::nullopt;
  const size_t begin = whole.turns[message], end = whole.turns[message + 1];
  if (begin > end || end > whole.text.size()) return std::nullopt;
  const std::string_view turn = std::string_view(whole.text).substr(begin, end - begin);
  if (!turn.starts_with(answer_prompt_)) return std::nullopt;
  const std::string_view answer = trimmed(turn.substr(answer_prompt_.size()));
  return Span{.begin = begin + answer_prompt_.size(),
              .end = static_cast<size_t>(answer.data() + answer.size() - whole.text.data()),
              .message = message,
              .is_ended = !answer_end_.empty() && answer.ends_with(trimmed(answer_end_))};
}

// An answer by parts takes two renderings. So of messages that are alike only the first and the last are
// found by parts: where these are what their turns write, all are.
std::map<size_t, ChatFormat::Span> ChatFormat::answers_of_turns(const ordered_json& conversation,
                                                                const Rendered& whole,
                                                                const std::vector<size_t>& wanted) const {
  std::map<std::string, std::vector<Span>> alike;
  for (const size_t message : wanted)
    if (const auto answer = answer_of_turn(whole, message))
      alike[kind_of(conversation["messages"], message)].push_back(*answer);
  const auto is_right = [&](const Span& answer) {
    return answer_by_parts(conversation, whole.text, answer.message) == answer;
  };
  std::map<size_t, Span> found;
  for (const auto& [kind, all] : alike)
    if (all.size() > 2 && is_right(all.front()) && is_right(all.back()))
      for (const Span& answer : all) found.emplace(answer.message, answer);
  return found;
}

// The answers between special tokens, which nobody but the template can write. Empty: not all are.
std::vector<ChatFormat::Span> ChatFormat::answers_between_tokens(std::string_view whole,
                                                                 const std::vector<size_t>& messages) const {
  if (answer_end_.empty() || tokenizer_->first_special(answer_prompt_).bytes == 0) return {};
  const std::string_view end =
      std::string_view(answer_end_).substr(tokenizer_->first_special(answer_end_).at);
  std::vector<Span> spans;
  for (size_t at = whole.find(answer_prompt_); at != std::string_view::npos;
       at = whole.find(answer_prompt_, at)) {
    const size_t begin = at += answer_prompt_.size();
    std::string_view token;
    do {  // over those that the answer itself has, such as <tool_call>
      const auto special = tokenizer_->first_special(whole.substr(at));
      token = whole.substr(at + special.at, special.bytes);
      at += special.at + special.bytes;
    } while (!token.empty() && around_answers_.find(token) == std::string::npos);
    if (token != end || spans.size() == messages.size()) return {};
    spans.push_back({begin, at, messages[spans.size()], true});
  }
  return spans.size() == messages.size() ? spans : std::vector<Span>();
}

std::vector<ChatFormat::Span> ChatFormat::answers(const ordered_json& conversation,
                                                  const Rendered& whole) const {
  std::vector<Span> spans;
  std::vector<size_t> wanted;
  const ordered_json& messages = conversation.at("messages");
  for (size_t i = 0; i < messages.size(); ++i)
    if (messages[i].value("role", "") == "assistant") wanted.push_back(i);
  for (const auto& [begin, end] : whole.generated)
    spans.push_back(
        {begin, end, wanted.empty() ? 0 : wanted[std::min(spans.size(), wanted.size() - 1)], true});
  if (!spans.empty()) return spans;
  if (spans = answers_between_tokens(whole.text, wanted); !spans.empty()) return spans;
  const auto has_text = [&](size_t message) {
    ordered_json content = messages[message].value("content", ordered_json());
    return !messages[message].contains("tool_calls") && end_of(content, true) && end_of(content, false);
  };
  std::vector<size_t> with_text;
  std::ranges::copy_if(wanted, std::back_inserter(with_text), has_text);
  std::vector<std::pair<size_t, size_t>> all_said;
  if (with_text.size() > 1) all_said = said(conversation, whole.text, with_text);
  std::vector<size_t> with_calls;
  std::ranges::copy_if(wanted, std::back_inserter(with_calls),
                       [&](size_t message) { return messages[message].contains("tool_calls"); });
  const std::map<size_t, Span> of_turns = answers_of_turns(conversation, whole, with_calls);
  SpecialPlaces specials(whole.text, *tokenizer_);
  size_t next = 0;  // place in with_text
  for (const size_t message : wanted) {
    const size_t earliest = spans.empty() ? 0 : spans.back().end;
    std::optional<Span> span;
    if (!all_said.empty() && next < with_text.size() && with_text[next] == message) {
      const auto one = all_said[next++];
      span = answer_around(whole.text, one, one.first, message, earliest, specials);
    } else if (const auto found = of_turns.find(message); found != of_turns.end()) {
      span = found->second;
    } else if (!messages[message].contains("tool_calls")) {
      span = answer(conversation, whole.text, message, earliest, specials);
    }
    if (!span) span = answer_by_parts(conversation, whole.text, message);
    if (!span)
      fail_with(PL_ERROR_CONFIG, name_, ": what of its text message ", message + 1,
                " is, cannot be told: put what the assistant says between {% generation %} and {% "
                "endgeneration %}");
    spans.push_back(*span);
  }
  std::ranges::stable_sort(spans, {}, &Span::begin);
  return spans;
}

}  // namespace pipeline::chat
