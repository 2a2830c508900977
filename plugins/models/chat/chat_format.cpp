#include "plugins/models/chat/chat_format.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "core/base/utf8.hpp"
#include "tokenizer/pre_tokenizer.hpp"

namespace pipeline::chat {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char *kConfig = "tokenizer_config.json", *kTemplateFile = "chat_template.jinja";

using Stays = std::function<bool(std::string_view token)>;

// Puts kGuard into all that people wrote, where a special token would be found. stays(token): one that is
// left as it is.
void break_special_tokens(std::string& text, const tokenizer::Tokenizer& tokenizer, const Stays& stays) {
  for (const std::string_view mark : {kGuard, kAnswerMark})
    if (text.find(mark) != std::string::npos)
      fail_with(PL_ERROR_CONFIG, "the conversation has a character that no text has (U+FDD0 to U+FDD2)");
  std::string broken;  // the text up to `done`
  size_t done = 0;
  for (size_t at = 0;;) {
    const auto special = tokenizer.first_special(std::string_view(text).substr(at));
    if (special.bytes == 0) break;
    at += special.at;
    if (stays && stays(std::string_view(text).substr(at, special.bytes))) {
      at += special.bytes;
      continue;
    }
    at += decode_utf8(text.data() + at, text.data() + text.size()).bytes;
    broken.append(text, done, at - done).append(kGuard);
    done = at;
  }
  if (done > 0) text = broken.append(text, done);
}

// Keys are text as well. kept: the key whose value stays as it is, in this object alone.
void break_special_tokens(ordered_json& value, const tokenizer::Tokenizer& tokenizer, const Stays& stays,
                          std::string_view kept = {}) {
  if (value.is_string()) break_special_tokens(value.get_ref<std::string&>(), tokenizer, stays);
  if (value.is_array())
    for (ordered_json& item : value) break_special_tokens(item, tokenizer, stays);
  if (!value.is_object()) return;
  ordered_json::object_t broken;
  for (auto& [key, item] : value.get_ref<ordered_json::object_t&>()) {
    std::string name = key;
    break_special_tokens(name, tokenizer, nullptr);
    if (key != kept) break_special_tokens(item, tokenizer, stays);
    broken.emplace_back(std::move(name), std::move(item));
  }
  value = std::move(broken);
}

ordered_json special_tokens_of(const tokenizer::Tokenizer& tokenizer) {
  ordered_json all = ordered_json::object();
  for (const char* file : {"special_tokens_map.json", kConfig}) {
    const auto found = tokenizer.files().find(file);
    if (found == tokenizer.files().end()) continue;
    const json values = json::parse(found->second, nullptr, false);
    if (!values.is_object()) continue;
    for (const auto& [key, value] : values.items()) {
      if (!key.ends_with("_token")) continue;
      const json& text = value.is_object() ? value.value("content", json()) : value;
      if (text.is_string()) all[key] = text;
    }
  }
  const auto text_of = [&](int32_t id) { return tokenizer.decode_bytes({{id}}); };
  if (!all.contains("eos_token") && tokenizer.has_eot()) all["eos_token"] = text_of(tokenizer.eot());
  if (!all.contains("bos_token") && tokenizer.bos()) all["bos_token"] = text_of(*tokenizer.bos());
  return all;
}

// The text in a list of parts.
std::string joined(const ordered_json& parts) {
  std::string text;
  for (const ordered_json& part : parts)
    if (part.is_object()) text += part.value("text", "");
  return text;
}

// Where each token of a text ends. Some take white space beside them, and SentencePiece puts a space before a
// text, also after special tokens; nullopt: a token reads otherwise than the text, whose characters are
// composed, for example.
std::optional<std::vector<size_t>> token_ends(const tokenizer::Tokenizer& tokenizer, std::string_view text,
                                              const std::vector<int32_t>& ids) {
  std::vector<size_t> ends;
  size_t at = 0;
  const auto space_bytes = [&]() -> size_t {  // white space of any script, as added tokens take it
    if (at == text.size()) return 0;
    const CodePoint character = decode_utf8(text.data() + at, text.data() + text.size());
    return tokenizer::character_class(character.value) == tokenizer::CharacterClass::kSpace ? character.bytes
                                                                                            : 0;
  };
  bool may_have_space = true;  // a space that is not the text's
  for (const int32_t id : ids) {
    std::string token = tokenizer.decode_bytes({{id}});
    const auto fits = [&] { return text.substr(at).starts_with(token); };
    if (std::exchange(may_have_space, tokenizer.is_special(id)) && !fits() && token.starts_with(' '))
      token.erase(0, 1);
    for (size_t bytes; !fits() && (bytes = space_bytes()) > 0;) at += bytes;
    if (!fits()) return std::nullopt;
    ends.push_back(at += token.size());
  }
  while (const size_t bytes = space_bytes()) at += bytes;
  return at == text.size() ? std::optional(std::move(ends)) : std::nullopt;
}

}  // namespace

ChatFormat::ChatFormat(std::string source, std::string name, tokenizer::TokenizerPtr tokenizer,
                       std::time_t date)
    : source_(std::move(source)),
      name_(std::move(name)),
      tokenizer_(std::move(tokenizer)),
      date_(date),
      template_(source_, name_),
      special_tokens_(special_tokens_of(*tokenizer_)),
      adds_space_(tokenizer_->encode("A", tokenizer::SpecialTokens::kAsText, tokenizer_->after_special()) !=
                  tokenizer_->encode("A", tokenizer::SpecialTokens::kAsText, tokenizer::TextPlace::kWithin)),
      end_(tokenizer_->eot()) {
  for (const bool in_parts : {false, true})
    if (learn_from_example(in_parts)) break;
  for (const std::string role : {"system", "developer", "user", "assistant", "tool"})
    if (reads_parts(role)) reads_parts_.insert(role);
}

// Whether the template makes text of a list of parts. Where it knows none, it refuses the list, passes over
// it or writes it down as it is.
bool ChatFormat::reads_parts(const std::string& role) const try {
  constexpr const char* kOther = "a member that no template knows";
  ordered_json messages = ordered_json::array();
  const auto add = [&](const char* other) { messages.push_back({{"role", other}, {"content", "text"}}); };
  if (role == "assistant" || role == "tool") add("user");
  if (role == "tool") add("assistant");
  const ordered_json part{{"type", "text"}, {"text", kAnswerMark}, {kOther, ""}};
  messages.push_back({{"role", role}, {"content", ordered_json::array({part})}});
  if (role == "system" || role == "developer") add("user");
  const std::string text = render({{"messages", messages}}, false).text;
  return text.find(kAnswerMark) != std::string::npos && text.find(kOther) == std::string::npos;
} catch (const Error&) {
  return false;
}

// Learns what stands around an answer. False: the template does not write such a conversation.
bool ChatFormat::learn_from_example(bool in_parts) try {
  ordered_json example{{"messages", {{{"role", "user"}, {"content", content_of("question", in_parts)}}}}};
  const std::string before = render(example, false).text, with = render(example, true).text;
  example["messages"].push_back({{"role", "assistant"}, {"content", content_of(kAnswerMark, in_parts)}});
  const Rendered rendered = render(example, false);
  const std::string& answered = rendered.text;
  const size_t mark = answered.find(kAnswerMark);
  if (mark == std::string::npos) return false;
  if (with.starts_with(before)) answer_prompt_ = with.substr(before.size());
  if (answered.starts_with(with) && with.size() <= mark)
    answer_start_ = answered.substr(with.size(), mark - with.size());
  const std::string_view rest = std::string_view(answered).substr(mark + kAnswerMark.size());
  if (const auto special = tokenizer_->first_special(rest); special.bytes > 0) {
    answer_end_ = rest.substr(0, special.at + special.bytes);
    const size_t end = answered.size() - rest.size() + answer_end_.size();
    learns_end_ = rendered.generated.empty() || rendered.generated.back().second >= end;
    end_ = tokenizer_->encode(rest.substr(special.at, special.bytes), tokenizer::SpecialTokens::kRecognize)
               .at(0);
  }
  around_answers_ = with + answer_end_;
  return true;
} catch (const Error&) {  // the template refuses such a conversation; what it makes of others is seen then
  return false;
}

ordered_json ChatFormat::content_of(std::string_view text, bool in_parts) {
  if (!in_parts) return text;
  return ordered_json::array({{{"type", "text"}, {"text", text}}});
}

Rendered ChatFormat::render(const ordered_json& conversation, bool with_prompt) const {
  ordered_json variables = special_tokens_;
  variables.update(conversation);
  variables["add_generation_prompt"] = with_prompt;
  return template_.render(variables, date_);
}

// A message's role and the type of a part of its content are fixed words; all else is somebody's text.
ordered_json ChatFormat::guarded(const ordered_json& conversation) const {
  // Tokens that a template reads in answers and does not write around them, such as <think>.
  const Stays of_answers = [&](std::string_view token) {
    return source_.find(token) != std::string::npos && around_answers_.find(token) == std::string::npos;
  };
  ordered_json copy = conversation;
  break_special_tokens(copy, *tokenizer_, nullptr, "messages");
  for (ordered_json& message : copy.at("messages")) {
    const Stays stays = message.value("role", "") == "assistant" ? of_answers : Stays();
    ordered_json content = message.value("content", ordered_json());
    if (content.is_array() && !reads_parts_.contains(message.value("role", ""))) content = joined(content);
    if (content.is_array())
      for (ordered_json& part : content) break_special_tokens(part, *tokenizer_, stays, "type");
    else
      break_special_tokens(content, *tokenizer_, stays);
    if (message.contains("content")) message["content"] = nullptr;
    break_special_tokens(message, *tokenizer_, nullptr, "role");
    if (message.contains("content")) message["content"] = std::move(content);
  }
  return copy;
}

ChatTokens ChatFormat::encode(std::string_view text, const std::vector<Span>& spans,
                              const PictureTokens& pictures) const {
  ChatTokens result;
  size_t picture = 0;
  auto span = spans.begin();  // the first that ends behind what is encoded
  const auto add = [&](int64_t id, size_t begin, size_t end) {
    while (span != spans.end() && span->end <= begin) ++span;
    const bool is_answer = span != spans.end() && end > span->begin;
    result.tokens.push_back(id);
    result.answer_of.push_back(is_answer ? static_cast<int32_t>(span->message) : -1);
  };
  const auto add_picture = [&] {
    if (picture == pictures.size())
      fail_with(PL_ERROR_CONFIG, name_, ": writes more pictures than the conversation has, ",
                pictures.size());
    for (const int64_t token : pictures[picture]) {
      result.tokens.push_back(token);
      result.answer_of.push_back(-1);
    }
    ++picture;
  };
  const std::optional<int32_t> mark = pictures.empty() ? std::nullopt : tokenizer_->special_token("<image>");
  const auto add_token = [&](int32_t id, size_t begin, size_t end) {
    if (id == mark) return add_picture();  // a template for pictures writes this mark
    add(id, begin, end);
  };
  tokenizer::TextPlace place = tokenizer::TextPlace::kStart;
  const auto encode_part = [&](size_t begin, size_t end) {
    const auto ids =
        tokenizer_->encode(text.substr(begin, end - begin), tokenizer::SpecialTokens::kRecognize, place);
    place = tokenizer::TextPlace::kWithin;
    return ids;
  };
  size_t here = text.find(kPictureMark);
  for (size_t begin = 0; begin < text.size();) {
    if (here < begin) here = text.find(kPictureMark, begin);
    const size_t guard = text.find(kGuard, begin);
    const size_t end = std::min({guard, here, text.size()});
    const tokenizer::TextPlace place_of_part = place;
    const std::vector<int32_t> ids = end > begin ? encode_part(begin, end) : std::vector<int32_t>();
    if (const auto ends = token_ends(*tokenizer_, text.substr(begin, end - begin), ids)) {
      for (size_t i = 0; i < ids.size(); ++i)
        add_token(ids[i], begin + (i == 0 ? 0 : (*ends)[i - 1]), begin + (*ends)[i]);
    } else {  // so that no token belongs to two spans
      std::vector<size_t> cuts{begin, end};
      for (auto one = span; one != spans.end() && one->begin < end; ++one)
        for (const size_t cut : {one->begin, one->end})
          if (cut > begin && cut < end) cuts.push_back(cut);
      std::ranges::sort(cuts);
      place = place_of_part;
      for (size_t i = 0; i + 1 < cuts.size(); ++i)
        for (const int32_t id : encode_part(cuts[i], cuts[i + 1])) add_token(id, cuts[i], cuts[i + 1]);
    }
    if (end == here && end < text.size()) {
      add_picture();
      place = tokenizer_->after_special();
    }
    begin = end + kGuard.size();
  }
  if (picture < pictures.size())
    fail_with(
        PL_ERROR_CONFIG, name_, ": writes ", picture, " of a conversation's ", pictures.size(),
        " pictures: it must write <image>, which the tokenizer has, for each part of the type \"image\"");
  return result;
}

ChatTokens ChatFormat::tokens(const ordered_json& conversation, const PictureTokens& pictures) const {
  const ordered_json messages = guarded(conversation);
  const Rendered whole = render(messages, false);
  const std::vector<Span> spans = answers(messages, whole);
  ChatTokens result = encode(whole.text, spans, pictures);
  if (!spans.empty() && !spans.back().is_ended && spans.back().message + 1 == messages["messages"].size()) {
    while (!result.answer_of.empty() && result.answer_of.back() < 0) {  // a line's end
      result.tokens.pop_back();
      result.answer_of.pop_back();
    }
    result.tokens.push_back(tokenizer_->eot());
    result.answer_of.push_back(static_cast<int32_t>(spans.back().message));
  }
  return result;
}

std::vector<int64_t> ChatFormat::prompt(const ordered_json& conversation,
                                        const PictureTokens& pictures) const {
  return encode(render(guarded(conversation), true).text, {}, pictures).tokens;
}

std::vector<int64_t> ChatFormat::picture_tokens(std::string_view text) const {
  constexpr std::string_view kMark = "<image>";
  std::vector<int64_t> tokens;
  tokenizer::TextPlace place = tokenizer_->after_special();
  const auto add = [&](std::string_view part) {
    for (const int32_t id : tokenizer_->encode(part, tokenizer::SpecialTokens::kRecognize, place))
      tokens.push_back(id);
    place = tokenizer_->after_special();
  };
  for (size_t mark; (mark = text.find(kMark)) != text.npos; text.remove_prefix(mark + kMark.size())) {
    add(text.substr(0, mark));
    tokens.push_back(ChatTokens::kPatch);
  }
  add(text);
  return tokens;
}

ChatTokens ChatFormat::text_tokens(std::string_view text) const {
  ChatTokens result;
  if (tokenizer_->adds_bos()) result.tokens.push_back(*tokenizer_->bos());
  for (const int32_t id : tokenizer_->encode(text)) result.tokens.push_back(id);
  result.tokens.push_back(tokenizer_->eot());
  result.answer_of.assign(result.tokens.size(), 0);
  return result;
}

std::string ChatFormat::answer_bytes(const std::vector<int64_t>& tokens) const {
  std::string bytes = tokenizer_->decode_bytes(std::vector<int32_t>(tokens.begin(), tokens.end()));
  if (!answer_start_.empty() && bytes.starts_with(answer_start_))
    bytes.erase(0, answer_start_.size());
  else if (adds_space_ && bytes.starts_with(' '))
    bytes.erase(0, 1);
  return bytes;
}

std::string ChatFormat::token_bytes(int64_t token) const {
  return tokenizer_->decode_bytes({{static_cast<int32_t>(token)}});
}

std::string ChatFormat::answer_text(const std::vector<int64_t>& tokens) const {
  return replace_invalid_utf8(answer_bytes(tokens));
}

std::pair<std::string, std::string> template_of(const tokenizer::Files& files) {
  for (const std::string name : {kTemplateFile, "chat_template.json", kConfig}) {
    const auto file = files.find(name);
    if (file == files.end()) continue;
    if (name == kTemplateFile) return {file->second, name};
    const json values = json::parse(file->second, nullptr, false);
    if (!values.is_object() || !values.contains("chat_template")) continue;
    const json& found = values["chat_template"];
    if (found.is_string()) return {found, name};
    if (!found.is_array()) continue;  // of several templates with names, the default
    for (const json& one : found)
      if (one.is_object() && one.value("name", "") == "default" && one.value("template", json()).is_string())
        return {one["template"], name};
  }
  return {};
}

tokenizer::TokenizerPtr with_template(const tokenizer::TokenizerPtr& tokenizer, const std::string& source) {
  return tokenizer->with({{kTemplateFile, source}});
}

std::vector<std::string> template_names() { return {"plain", "simple", "vicuna", "chatml", "llama3"}; }

std::string named_template(const std::string& name, const tokenizer::Tokenizer& tokenizer) {
  const auto literal = [](const std::string& text) { return ordered_json(text).dump(); };
  const auto require = [&](std::initializer_list<const char*> tokens) {
    for (const char* token : tokens)
      if (!tokenizer.special_token(token))
        fail_with(PL_ERROR_CONFIG, "task.chat.template = \"", name, "\": needs the special token ", token,
                  ", which this tokenizer does not have: use a tokenizer that has it, or another template");
  };
  const std::string begin =
      "{{ " + literal(tokenizer.decode_bytes({{tokenizer.adds_bos() ? *tokenizer.bos() : tokenizer.eot()}})) +
      " }}";
  // In some folders SentencePiece puts a space before a text, but not after the token that begins one.
  const bool needs_space =
      tokenizer.adds_bos() && tokenizer.after_special() == tokenizer::TextPlace::kWithin &&
      tokenizer.encode("A", tokenizer::SpecialTokens::kAsText, tokenizer::TextPlace::kStart) !=
          tokenizer.encode("A", tokenizer::SpecialTokens::kAsText, tokenizer::TextPlace::kWithin);
  const std::string start = begin + (needs_space ? "{{ ' ' }}" : "");
  const std::string each = "{% for message in messages %}";
  if (name == "plain")
    return begin + each +
           "{{ message.content }}{% if message.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}";
  if (name == "simple")
    return start + each +
           "{% if message.role == 'user' %}{{ 'question: ' + message.content + '\\n' }}{% elif message.role "
           "== 'assistant' %}{{ 'answer: ' + message.content + eos_token }}{% else %}{{ message.content + "
           "'\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}answer:{% endif %}";
  if (name == "vicuna") {
    // After a token that SentencePiece follows with a space of its own there is none.
    const std::string between = tokenizer.after_special() == tokenizer::TextPlace::kWithin ? " " : "";
    return start +
           "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% else %}A chat between a curious "
           "user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite "
           "answers to the user's questions.{% endif %}" +
           each +
           "{% if message.role == 'user' %}{{ (' ' if loop.first or messages[loop.index0 - 1].role == "
           "'system' else '" +
           between +
           "') + 'USER: ' + message.content }}{% elif message.role == 'assistant' %}{{ ' ASSISTANT: ' + "
           "message.content + eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %} ASSISTANT:{% "
           "endif %}";
  }
  if (name == "chatml") {
    require({"<|im_start|>", "<|im_end|>"});
    return each +
           "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}{% if "
           "add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  }
  require({"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"});
  return "<|begin_of_text|>" + each +
         "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + "
         "'<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ "
         "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";
}

}  // namespace pipeline::chat
