#include "plugins/tasks/vlm/task/chat.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace pipeline::vlm {
namespace {

const std::vector<ChatTemplate>& templates() {
  static const std::vector<ChatTemplate> all{
      {"plain", true, "", "", "", "", "", "", ""},
      {"simple", true, "", "question: ", "\n", "answer: ", "", "", ""},
      {"vicuna", true,
       "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
       "detailed, and polite answers to the user's questions.",
       " USER:", "", " ASSISTANT:", " ", "", ""},
      {"chatml", false, "", "<|im_start|>user\n", "<|im_end|>\n", "<|im_start|>assistant\n", "", "<|im_end|>",
       "\n"},
      {"llama3", false, "<|begin_of_text|>", "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>",
       "<|start_header_id|>assistant<|end_header_id|>\n\n", "", "<|eot_id|>", ""},
  };
  return all;
}

}  // namespace

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> names;
  for (const ChatTemplate& one : templates()) names.push_back(one.name);
  return names;
}

ChatTemplate ChatTemplate::named(const std::string& name) {
  for (const ChatTemplate& one : templates())
    if (one.name == name) return one;
  fail_with(PL_ERROR_CONFIG, "there is no chat template \"", name, "\"");
}

std::string ChatTemplate::note_of_folder(const text::Files& files, const std::string& used) {
  constexpr const char* kConfig = "tokenizer_config.json";
  for (const std::string name : {"chat_template.jinja", "chat_template.json", kConfig}) {
    const auto file = files.find(name);
    if (file == files.end()) continue;
    if (name == kConfig) {
      const nlohmann::json config = nlohmann::json::parse(file->second, nullptr, false);
      if (!config.is_object() || config.value("chat_template", nlohmann::json()).is_null()) continue;
    }
    std::string nearest;
    for (const auto& [mark, ours] :
         {std::pair("<|im_start|>", "chatml"), {"<|start_header_id|>", "llama3"}, {"ASSISTANT:", "vicuna"}})
      if (nearest.empty() && file->second.find(mark) != std::string::npos) nearest = ours;
    return concat("the model has a chat template of its own, in ", name,
                  ", which is not read here: the turns are learnt as task.chat.template = \"", used,
                  "\" writes them: ",
                  nearest.empty() ? "set it to one, if another is nearer"
                                  : concat("\"", nearest, "\" is nearer; set it to choose"));
  }
  return {};
}

Chat::Chat(ChatTemplate style, text::TokenizerPtr tokenizer, int64_t patches, int64_t max_tokens)
    : style_(std::move(style)),
      tokenizer_(std::move(tokenizer)),
      words_(style_.before_assistant.empty() ? tokenizer_->after_special() : text::Place::kWithin),
      patches_(patches),
      max_tokens_(max_tokens) {
  const auto encode = [&](const std::string& text, text::Place place) {
    const auto ids = tokenizer_->encode(text, text::SpecialTokens::kRecognize, place);
    return std::vector<int64_t>(ids.begin(), ids.end());
  };
  if (style_.begins_with_end) system_ = {tokenizer_->adds_bos() ? *tokenizer_->bos() : tokenizer_->eot()};
  for (const int64_t id : encode(style_.system, text::Place::kStart)) system_.push_back(id);
  before_user_ =
      encode(style_.before_user, style_.system.empty() ? text::Place::kStart : text::Place::kWithin);
  to_answer_ = encode(style_.after_user + style_.before_assistant, text::Place::kWithin);
  picture_to_answer_ = encode(style_.after_user + style_.before_assistant, tokenizer_->after_special());
  between_ = encode(style_.between, text::Place::kWithin);
  end_ = style_.after_assistant.empty() ? std::vector<int64_t>{tokenizer_->eot()}
                                        : encode(style_.after_assistant, text::Place::kWithin);
  if (end_.size() != 1)
    fail_with(PL_ERROR_CONFIG, "task.chat.template = \"", style_.name, "\": ends an answer with ",
              style_.after_assistant, ", which is ", end_.size(),
              " tokens of this tokenizer, must be one: use a tokenizer that has it, or another template");
}

void Chat::append_text(std::string_view text, text::Place place, std::vector<int64_t>& out) const {
  const auto ids = tokenizer_->encode(text, text::SpecialTokens::kAsText, place);
  out.insert(out.end(), ids.begin(), ids.end());
}

void Chat::append_user(const Turn& turn, bool with_picture, std::vector<int64_t>& out) const {
  const auto append = [&](const std::vector<int64_t>& tokens) {
    out.insert(out.end(), tokens.begin(), tokens.end());
  };
  append(before_user_);
  const size_t mark = turn.text.find(kImageMark);
  append_text(style_.before_words + turn.text.substr(0, mark), words_, out);
  if (mark == std::string::npos) return append(to_answer_);
  const std::string_view rest = std::string_view(turn.text).substr(mark + kImageMark.size());
  if (with_picture) out.insert(out.end(), static_cast<size_t>(patches_), ChatTokens::kPatch);
  append_text(rest, with_picture ? tokenizer_->after_special() : words_, out);
  append(with_picture && rest.empty() ? picture_to_answer_ : to_answer_);
}

ChatTokens Chat::sequence(const Conversation& conversation, bool with_picture) const {
  ChatTokens result;
  std::vector<int64_t>& all = result.tokens;
  all = system_;
  std::vector<bool> learnt(all.size(), false);
  const auto most = static_cast<size_t>(max_tokens_) + 1;  // the last one may be a target alone
  for (size_t i = 0; i < conversation.turns.size(); i += 2) {
    const size_t before = all.size();
    if (i > 0) all.insert(all.end(), between_.begin(), between_.end());
    append_user(conversation.turns[i], with_picture, all);
    const size_t asked = all.size();
    learnt.resize(asked, false);
    const bool is_answered = i + 1 < conversation.turns.size();
    if (is_answered) {
      append_text(style_.before_words + conversation.turns[i + 1].text, words_, all);
      all.push_back(end_.front());
      learnt.resize(all.size(), true);
    }
    if (all.size() <= most - (is_answered ? 0 : 1)) continue;
    result.cut_turns = (conversation.turns.size() - i + 1) / 2;
    // A question is not cut: its picture would be.
    all.resize(i == 0 && is_answered && asked < most ? most : before);
    learnt.resize(all.size());
    break;
  }
  result.targets.assign(all.size(), -1);
  for (size_t i = 0; i + 1 < all.size(); ++i)
    if (learnt[i + 1]) result.targets[i] = all[i + 1];
  if (!learnt.empty() && learnt.back()) {  // nothing comes after it
    all.pop_back();
    result.targets.pop_back();
  }
  return result;
}

std::vector<int64_t> Chat::prompt(const Conversation& conversation, size_t question, int64_t new_tokens,
                                  bool with_picture) const {
  // The turns of each question and its answer, so that the oldest can go, but for the one with the picture.
  std::vector<std::vector<int64_t>> parts;
  for (size_t i = 0; i <= question; ++i) {
    std::vector<int64_t>& part = parts.emplace_back();
    append_user(conversation.turns[2 * i], with_picture, part);
    if (i == question) break;
    append_text(style_.before_words + conversation.turns[2 * i + 1].text, words_, part);
    part.push_back(end_.front());
    part.insert(part.end(), between_.begin(), between_.end());
  }
  const auto has_picture = [&](const std::vector<int64_t>& part) {
    return std::find(part.begin(), part.end(), ChatTokens::kPatch) != part.end();
  };
  size_t total = system_.size();
  for (const auto& part : parts) total += part.size();
  const auto room = static_cast<size_t>(std::max<int64_t>(max_tokens_ - new_tokens, 1));
  for (size_t i = 0; i + 1 < parts.size() && total > room; ++i) {
    if (has_picture(parts[i])) continue;
    total -= parts[i].size();
    parts[i].clear();
  }
  if (total > room) return {};
  std::vector<int64_t> result = system_;
  for (const auto& part : parts) result.insert(result.end(), part.begin(), part.end());
  return result;
}

std::vector<int64_t> Chat::answer(const Conversation& conversation, size_t question) const {
  std::vector<int64_t> tokens;
  append_text(style_.before_words + conversation.turns[2 * question + 1].text, words_, tokens);
  tokens.push_back(end_.front());
  return tokens;
}

std::string Chat::answer_text(const std::vector<int64_t>& tokens) const {
  std::string text = tokenizer_->decode(std::vector<int32_t>(tokens.begin(), tokens.end()));
  if (text.starts_with(style_.before_words)) text.erase(0, style_.before_words.size());
  return text;
}

}  // namespace pipeline::vlm
