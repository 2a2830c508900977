#include "plugins/tasks/vlm/chat.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include <nlohmann/json.hpp>

namespace pipeline::tasks::vlm {
namespace {

using nlohmann::ordered_json;

chat::ChatFormat format_of(const std::string& style, const tokenizer::TokenizerPtr& tokenizer) {
  auto [source, file] = chat::template_of(tokenizer->files());
  if (style != "auto" || source.empty()) {
    const std::string name = style == "auto" ? "simple" : style;
    source = chat::named_template(name, *tokenizer);
    file = "task.chat.template = \"" + name + "\"";
  }
  constexpr std::time_t kDate =
      1721995200;  // 2024-07-26, as the task chat has it: no run may depend on the day
  return chat::ChatFormat(source, file, tokenizer, kDate);
}

// A turn's text as the list of parts that templates for pictures read.
ordered_json parts_of(std::string_view text, bool with_pictures) {
  ordered_json parts = ordered_json::array();
  for (bool follows_picture = false;; follows_picture = true) {
    const size_t mark = text.find(kImageMark);
    std::string_view part = text.substr(0, mark);
    if (follows_picture && part.starts_with('\n')) part.remove_prefix(1);  // the template writes it
    if (!part.empty()) parts.push_back({{"type", "text"}, {"text", part}});
    if (mark == text.npos) return parts;
    if (with_pictures) parts.push_back({{"type", "image"}});
    text.remove_prefix(mark + kImageMark.size());
  }
}

// The parts of a turn: its own list, where it has one.
ordered_json parts_of(const Turn& turn, bool with_pictures) {
  if (turn.parts.empty()) return parts_of(turn.text, with_pictures);
  ordered_json parts = ordered_json::array();
  for (ordered_json& part : ordered_json::parse(turn.parts)) {
    const bool is_text = part.at("type") == "text";
    if (is_text && marks_in(part.at("text").get_ref<const std::string&>()) > 0)
      for (ordered_json& piece : parts_of(part["text"].get<std::string>(), with_pictures))
        parts.push_back(std::move(piece));
    else if (is_text || with_pictures)
      parts.push_back(std::move(part));
  }
  return parts;
}

// The text with what ChatFormat looks for in place of each mark.
std::string marked_text(std::string_view text, bool with_pictures) {
  std::string result;
  for (size_t mark; (mark = text.find(kImageMark)) != text.npos; text.remove_prefix(mark + kImageMark.size()))
    result.append(text.substr(0, mark)).append(with_pictures ? chat::kPictureMark : "");
  return result.append(text);
}

}  // namespace

Chat::Chat(const std::string& style, tokenizer::TokenizerPtr tokenizer, int64_t max_tokens)
    : format_(format_of(style, tokenizer)),
      has_parts_(format_.source().find("'image'") != std::string::npos ||
                 format_.source().find("\"image\"") != std::string::npos),
      max_tokens_(max_tokens) {}

ordered_json Chat::variables(const Conversation& conversation, bool with_pictures) const {
  ordered_json all = conversation.variables();
  for (size_t i = 0; i < conversation.turns.size(); ++i) {
    const Turn& turn = conversation.turns[i];
    ordered_json& content = all["messages"][i]["content"];
    if (has_parts_)
      content = parts_of(turn, with_pictures);
    else
      content = marked_text(turn.text, with_pictures);
  }
  return all;
}

Sequence Chat::sequence(const Conversation& conversation, const PictureTokens& pictures) const {
  return chat::make_sequence(format_.tokens(variables(conversation, !pictures.empty()), pictures),
                             max_tokens_, [](size_t) { return true; });
}

std::vector<int64_t> Chat::prompt(const Conversation& conversation, size_t question, int64_t new_tokens,
                                  const PictureTokens& pictures) const {
  PictureTokens shown = pictures;
  if (!shown.empty()) shown.resize(pictures_until(conversation, question));
  std::vector<size_t> may_go;  // questions without pictures, but for the last
  for (size_t i = 0; i < question; ++i)
    if (marks_in(conversation.turns[2 * i].text) == 0) may_go.push_back(2 * i);
  const auto without = [&](size_t count) {
    Conversation asked = conversation;
    asked.turns.resize(2 * question + 1);
    for (size_t i = count; i-- > 0;) {
      const auto first = asked.turns.begin() + static_cast<std::ptrdiff_t>(may_go[i]);
      asked.turns.erase(first, first + 2);
    }
    return format_.prompt(variables(asked, !shown.empty()), shown);
  };
  const auto room = static_cast<size_t>(std::max<int64_t>(max_tokens_ - new_tokens, 1));
  if (std::vector<int64_t> tokens = without(0); tokens.size() <= room) return tokens;
  const auto fits = [&](size_t count) { return without(count).size() <= room; };
  const size_t count = chat::fewest(1, may_go.size() + 1, fits);
  return count > may_go.size() ? std::vector<int64_t>() : without(count);
}

std::vector<int64_t> Chat::answer(const Conversation& conversation, size_t question) const {
  const ChatTokens all = format_.tokens(variables(conversation, false));
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < all.tokens.size(); ++i)
    if (all.answer_of[i] == static_cast<int32_t>(2 * question + 1)) tokens.push_back(all.tokens[i]);
  return tokens;
}

}  // namespace pipeline::tasks::vlm
