#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.hpp"

namespace pipeline::tokenizer {

// Two tokens that may stand side by side become one.
struct Merge {
  int32_t left;
  int32_t right;
  int32_t result;  // its bytes are those of left and right
};

// A token that stands for itself and no merge makes.
struct Added {
  int32_t id;
  std::string text;  // that is looked for
  Matching how = {};

  bool operator==(const Added&) const = default;
};

// Which regular expression cuts texts into pieces: see PieceScanner.
enum class PreTokenizer : uint8_t { kGpt2, kSmolLm, kLlama3, kQwen2, kClip };

// What a byte-level BPE tokenizer's files hold, checked: every byte has a token of its own (SmolLM: every
// printable ASCII character), no two tokens but added ones are the same, merges are distinct pairs of them.
struct Vocabulary {
  std::vector<std::string> tokens;  // bytes by id
  std::vector<Merge> merges;        // the first has precedence
  std::vector<Added> added;         // by id
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  bool is_composed = false;    // text becomes Unicode's normal form C first
  bool ignore_merges = false;  // a piece that is a token becomes that one, whatever the merges make of it

  // Special tokens that the files name; -1: none. Without an end of text that they name, it is
  // "<|endoftext|>" or else "<|end_of_text|>", where the vocabulary has one.
  int32_t end_of_text = -1;
  int32_t begin_of_text = -1;
  bool adds_begin_of_text = false;  // before each text that Hugging Face's encode() is given
  int32_t added_end = -1;           // behind each of them

  // CLIP's: texts become lower case, white space is no part of any piece, and what ends a piece is another
  // token than the same bytes within. Files write it "cat</w>"; its bytes here are those and a space.
  bool ends_words() const { return pre_tokenizer == PreTokenizer::kClip; }
};
inline constexpr const char* kWordEnd = "</w>";
inline constexpr const char* kClipBegin = "<|startoftext|>";

inline constexpr const char* kEndOfText = "<|endoftext|>";
inline constexpr const char* kLlama3EndOfText = "<|end_of_text|>";

// Whether a token, by its id, is an added one.
bool is_added(const Vocabulary& vocabulary, size_t id);

// The id of an added token, -1 where there is none that reads so.
int32_t special_token(const Vocabulary& vocabulary, std::string_view text);

// The id of the special token that ends a text, -1 where there is none.
int32_t end_of_text(const Vocabulary& vocabulary);

}  // namespace pipeline::tokenizer
