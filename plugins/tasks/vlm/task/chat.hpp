// How a conversation becomes one sequence of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tasks/vlm/data/conversation.hpp"
#include "tokenizer/tokenizer.hpp"

namespace pipeline::vlm {

// What stands around the turns. Its tokens such as <|im_end|> are recognized in these texts alone, never in
// what people wrote.
struct ChatTemplate {
  std::string name;
  bool begins_with_end;  // of text, as a start; with the tokenizer's own where it adds one
  std::string system;    // before all turns
  std::string before_user, after_user, before_assistant;
  std::string before_words;     // what people and the assistant say begins with: a space belongs to a word
  std::string after_assistant;  // ends the answer and is learnt with it; empty: the end of text
  std::string between;          // an answer's end and the next turn

  // Throws Error (PL_ERROR_CONFIG) for a name that there is not.
  static ChatTemplate named(const std::string& name);
  static std::vector<std::string> names();

  // For the log, where nobody has chosen one: that `used` is not the template that a folder has of its own,
  // and which one is nearest to it. Empty: the folder has none.
  static std::string note_of_folder(const text::Files& files, const std::string& used);
};

// A conversation as the language model reads it.
struct ChatTokens {
  static constexpr int64_t kPatch = -1;  // in place of a token: a patch of the picture

  std::vector<int64_t> tokens;
  std::vector<int64_t>
      targets;             // the token after each one, in the assistant's turns and their ends; -1: none
  uint64_t cut_turns = 0;  // pairs of turns that did not fit
};

class Chat {
 public:
  // `patches`: tokens that a picture takes. `max_tokens`: longer conversations are cut.
  Chat(ChatTemplate style, text::TokenizerPtr tokenizer, int64_t patches, int64_t max_tokens);

  // For learning and evaluating. Cut at the end of an answer, so that a picture may be left out; the first
  // answer is cut within where it does not fit, and has no end then. `with_picture` false: as if there were
  // none, to see what it is worth.
  ChatTokens sequence(const Conversation& conversation, bool with_picture = true) const;

  // What comes before the answer to turn 2 * `question`; older turns are left out until `new_tokens` fit.
  // Empty if they never do.
  std::vector<int64_t> prompt(const Conversation& conversation, size_t question, int64_t new_tokens,
                              bool with_picture = true) const;

  // The tokens of the answer to that question, its end included.
  std::vector<int64_t> answer(const Conversation& conversation, size_t question) const;

  // What was generated, as a reader sees it; without the end.
  std::string answer_text(const std::vector<int64_t>& tokens) const;

  int64_t end_token() const { return end_.front(); }  // generation stops there

 private:
  void append_user(const Turn& turn, bool with_picture, std::vector<int64_t>& out) const;
  void append_text(std::string_view text, text::Place place, std::vector<int64_t>& out) const;

  ChatTemplate style_;
  text::TokenizerPtr tokenizer_;
  text::Place words_;  // of what people and the assistant say; a caption follows a picture
  int64_t patches_, max_tokens_;
  std::vector<int64_t> system_, before_user_, to_answer_, picture_to_answer_, between_, end_;
};

}  // namespace pipeline::vlm
