// Conversations as tokens: a chat template with the tokenizer that it is written for.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/models/chat/template.hpp"
#include "tokenizer/tokenizer.hpp"

namespace pipeline::chat {

// Characters that no text has, and no conversation may: kGuard stands within what reads like a special token
// and is none, kAnswerMark in place of an answer. kPictureMark a task puts where a picture stands.
inline constexpr std::string_view kGuard = "\uFDD0", kAnswerMark = "\uFDD1", kPictureMark = "\uFDD2";

struct ChatTokens {
  static constexpr int64_t kPatch = -1;  // in place of a token: a patch of a picture

  std::vector<int64_t> tokens;
  // For each token the number of the message that it is the assistant's answer of, the token that ends the
  // answer included; -1: none.
  std::vector<int32_t> answer_of;
};

// The tokens that each picture of a conversation takes, in order: kPatch for a row of its features, and what
// stands between these. None: there are no pictures.
using PictureTokens = std::vector<std::vector<int64_t>>;

// Conversations are template variables: {"messages": [{"role", "content", ...}, ...], "tools": [...], ...}.
// What people wrote never becomes a special token, whatever they wrote; but for that, the tokens are those of
// transformers.apply_chat_template: a content that is a list of parts reaches the template as one, unless it
// knows texts alone, which then are one after another. Const: for any thread. These throw an Error
// (PL_ERROR_CONFIG) for a template that cannot be read, and for a conversation that it refuses.
class ChatFormat {
 public:
  // `source`: a template, of the file `name`. `date`: what strftime_now() tells.
  ChatFormat(std::string source, std::string name, tokenizer::TokenizerPtr tokenizer, std::time_t date);

  // The whole conversation. Where the template does not end the last answer, the end of text does. What the
  // assistant wrote stands between {% generation %} and {% endgeneration %}; without these it is what the
  // template makes of a message's content with what comes after add_generation_prompt's text before it, and
  // with the token that ends it.
  ChatTokens tokens(const nlohmann::ordered_json& conversation, const PictureTokens& pictures = {}) const;

  // The conversation so far with what comes before the assistant's next answer.
  std::vector<int64_t> prompt(const nlohmann::ordered_json& conversation,
                              const PictureTokens& pictures = {}) const;

  // The tokens of what a picture takes, of which each <image> is kPatch.
  std::vector<int64_t> picture_tokens(std::string_view text) const;

  // The tokens of a text by itself: what begins a text, where the tokenizer says so, and its end.
  ChatTokens text_tokens(std::string_view text) const;

  // The bytes of what was generated, without what the template puts before each answer; a token's within a
  // text. A character may be cut at their ends.
  std::string answer_bytes(const std::vector<int64_t>& tokens) const;
  std::string token_bytes(int64_t token) const;
  // Whether these bytes may be the beginning of what stands before an answer.
  bool may_be_start(std::string_view bytes) const {
    return bytes.size() < answer_start_.size() && answer_start_.starts_with(bytes);
  }
  // An answer as people read it.
  std::string answer_text(const std::vector<int64_t>& tokens) const;

  // The token that ends an answer; the end of text where the template writes none.
  int64_t end_token() const { return end_; }
  // Whether the template writes that token itself; and whether its {% generation %} has it, if there is any.
  bool ends_answers() const { return !answer_end_.empty(); }
  bool learns_end() const { return learns_end_; }
  bool tells_date() const { return source_.find("strftime_now") != std::string::npos; }
  const std::string& source() const { return source_; }
  // Differs where renderings do, but for what the tokenizer's fingerprint has.
  std::string key() const {
    return source_ + "\n" + special_tokens_.dump() + "\n" + std::to_string(tells_date() ? date_ : 0);
  }

 private:
  // Bytes of the rendered text that message `message` is the answer of.
  struct Span {
    size_t begin, end;
    size_t message;
    bool is_ended;  // by a token that is part of it
    bool operator==(const Span&) const = default;
  };

  bool learn_from_example(bool in_parts);
  bool reads_parts(const std::string& role) const;
  // A content as text, or as the list of parts that templates for pictures read.
  static nlohmann::ordered_json content_of(std::string_view text, bool in_parts);
  Rendered render(const nlohmann::ordered_json& conversation, bool with_prompt) const;
  // The conversation as people wrote it, but for what must not become special tokens.
  nlohmann::ordered_json guarded(const nlohmann::ordered_json& conversation) const;
  class SpecialPlaces;
  // The answers, in the order of the text.
  std::vector<Span> answers(const nlohmann::ordered_json& conversation, const Rendered& whole) const;
  std::vector<Span> answers_between_tokens(std::string_view whole, const std::vector<size_t>& messages) const;
  std::vector<std::pair<size_t, size_t>> said(const nlohmann::ordered_json& conversation,
                                              std::string_view whole,
                                              const std::vector<size_t>& messages) const;
  std::optional<Span> answer(const nlohmann::ordered_json& conversation, std::string_view whole,
                             size_t message, size_t earliest, SpecialPlaces& specials) const;
  std::optional<Span> answer_around(std::string_view whole, std::pair<size_t, size_t> said, size_t content,
                                    size_t message, size_t earliest, SpecialPlaces& specials) const;
  std::optional<Span> answer_by_parts(const nlohmann::ordered_json& conversation, std::string_view whole,
                                      size_t message) const;
  std::optional<Span> answer_of_turn(const Rendered& whole, size_t message) const;
  std::map<size_t, Span> answers_of_turns(const nlohmann::ordered_json& conversation, const Rendered& whole,
                                          const std::vector<size_t>& wanted) const;
  ChatTokens encode(std::string_view text, const std::vector<Span>& spans,
                    const PictureTokens& pictures) const;

  std::string source_, name_;
  tokenizer::TokenizerPtr tokenizer_;
  std::time_t date_;
  Template template_;
  nlohmann::ordered_json special_tokens_;  // bos_token, eos_token, ..., as the tokenizer's files call them
  std::string answer_prompt_;              // what add_generation_prompt adds
  std::string around_answers_;             // an example's text but for the answer
  std::string answer_start_;               // what stands between the prompt and an answer
  std::string answer_end_;                 // what follows an answer, up to the first special token
  std::set<std::string> reads_parts_;      // the roles whose content may be a list
  bool adds_space_;                        // whether the tokenizer adds one to a text after a special token
  int64_t end_ = 0;
  bool learns_end_ = true;
};

// The template among a tokenizer's files, with the file's name; empty: there is none.
std::pair<std::string, std::string> template_of(const tokenizer::Files& files);

// The files with this template in place of theirs.
tokenizer::TokenizerPtr with_template(const tokenizer::TokenizerPtr& tokenizer, const std::string& source);

// Templates for tokenizers that have none: plain, nothing but the texts; simple; vicuna, chatml, llama3.
std::vector<std::string> template_names();
// One of them as this tokenizer needs it. Throws an Error (PL_ERROR_CONFIG) where it lacks a token for it.
std::string named_template(const std::string& name, const tokenizer::Tokenizer& tokenizer);

}  // namespace pipeline::chat
