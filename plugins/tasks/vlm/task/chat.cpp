#include "plugins/tasks/vlm/task/chat.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

namespace pipeline::vlm {
namespace {

using nlohmann::ordered_json;

chat::ChatFormat format_of(const std::string& style, const text::TokenizerPtr& tokenizer, int64_t patches) {
  auto [source, file] = chat::template_of(tokenizer->files());
  if (style != "auto" || source.empty()) {
    const std::string name = style == "auto" ? "simple" : style;
    source = chat::named_template(name, *tokenizer);
    file = "task.chat.template = \"" + name + "\"";
  }
  constexpr std::time_t kDate =
      1721995200;  // 2024-07-26, as the task chat has it: no run may depend on the day
  return chat::ChatFormat(source, file, tokenizer, kDate, patches);
}

bool has_mark(const Turn& turn) { return turn.text.find(kImageMark) != std::string::npos; }

}  // namespace

Chat::Chat(const std::string& style, text::TokenizerPtr tokenizer, int64_t patches, int64_t max_tokens)
    : format_(format_of(style, tokenizer, patches)),
      has_parts_(format_.source().find("'image'") != std::string::npos ||
                 format_.source().find("\"image\"") != std::string::npos),
      max_tokens_(max_tokens) {}

ordered_json Chat::variables(const Conversation& conversation, bool with_picture) const {
  ordered_json all = conversation.variables();
  for (size_t i = 0; i < conversation.turns.size(); ++i) {
    const std::string& text = conversation.turns[i].text;
    const size_t mark = text.find(kImageMark);
    ordered_json& content = all["messages"][i]["content"];
    if (has_parts_) {
      content = ordered_json::array();
      const std::string before = text.substr(0, mark),
                        after = mark == text.npos ? "" : text.substr(mark + kImageMark.size());
      if (!before.empty()) content.push_back({{"type", "text"}, {"text", before}});
      if (mark != text.npos && with_picture) content.push_back({{"type", "image"}});
      const size_t line = after.starts_with('\n') ? 1 : 0;  // which the template writes
      if (after.size() > line) content.push_back({{"type", "text"}, {"text", after.substr(line)}});
    } else if (mark != text.npos) {
      content = text.substr(0, mark) + (with_picture ? std::string(chat::kPictureMark) : "") +
                text.substr(mark + kImageMark.size());
    }
  }
  return all;
}

Sequence Chat::sequence(const Conversation& conversation, bool with_picture) const {
  return chat::make_sequence(format_.tokens(variables(conversation, with_picture)), max_tokens_,
                             [](size_t) { return true; });
}

std::vector<int64_t> Chat::prompt(const Conversation& conversation, size_t question, int64_t new_tokens,
                                  bool with_picture) const {
  Conversation asked = conversation;
  asked.turns.resize(2 * question + 1);
  const auto room = static_cast<size_t>(std::max<int64_t>(max_tokens_ - new_tokens, 1));
  for (size_t oldest = 0;;) {
    std::vector<int64_t> tokens = format_.prompt(variables(asked, with_picture));
    if (tokens.size() <= room) return tokens;
    if (oldest + 2 < asked.turns.size() && has_mark(asked.turns[oldest])) oldest += 2;  // the picture stays
    if (oldest + 2 >= asked.turns.size()) return {};
    const auto first = asked.turns.begin() + static_cast<std::ptrdiff_t>(oldest);
    asked.turns.erase(first, first + 2);
  }
}

std::vector<int64_t> Chat::answer(const Conversation& conversation, size_t question) const {
  const ChatTokens all = format_.tokens(variables(conversation, false));
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < all.tokens.size(); ++i)
    if (all.answer_of[i] == static_cast<int32_t>(2 * question + 1)) tokens.push_back(all.tokens[i]);
  return tokens;
}

}  // namespace pipeline::vlm
