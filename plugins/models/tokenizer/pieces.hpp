#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.hpp"

namespace pipeline::tokenizer {

// The pieces of a SentencePiece model and how a text becomes them, whatever file they are in. Const and safe
// for any thread.
struct Pieces {
  virtual ~Pieces() = default;

  // The ids of a text; special tokens may be among them where the text has their letters.
  virtual std::vector<int> encode(std::string_view text, TextPlace place) const = 0;

  std::vector<std::string> bytes;  // that each piece stands for, by id
  std::vector<bool> is_special;
  std::map<int32_t, Matching> matching;         // of special tokens, where it is not the usual one
  int32_t unknown = -1, begin = -1, end = -1;   // ids; -1: none
  bool adds_space = true;                       // before a text that starts
  bool adds_begin = true;                       // before each text that Hugging Face's encode() is given
  TextPlace after_special = TextPlace::kStart;  // where a text stands that follows a special token

 protected:
  Pieces() = default;
  Pieces(const Pieces&) = default;
  Pieces& operator=(const Pieces&) = default;
  Pieces(Pieces&&) = default;
  Pieces& operator=(Pieces&&) = default;
};

inline constexpr std::string_view kSpaceSign = "\u2581";

// The bytes of a piece that is neither special nor a byte: a sign stands for each space.
inline std::string with_spaces(std::string piece) {
  for (size_t at = 0; (at = piece.find(kSpaceSign, at)) != piece.npos;)
    piece.replace(at, kSpaceSign.size(), " ");
  return piece;
}

}  // namespace pipeline::tokenizer
