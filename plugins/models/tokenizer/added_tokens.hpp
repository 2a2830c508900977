#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace pipeline::tokenizer {

// How a token that was added to a vocabulary is found in a text, as Hugging Face's files say it.
struct Matching {
  bool is_special = true;                        // SpecialTokens says whether it is found; others always are
  bool is_normalized = false;                    // it is looked for in what is left between the others
  bool takes_left = false, takes_right = false;  // white space that stands there: lstrip, rstrip

  bool operator==(const Matching&) const = default;
};

// Finds tokens in a text, however many there are of both: a text is gone through once.
class TokenIndex {
 public:
  struct Token {
    std::string_view text;  // outlives the object; not empty
    int32_t id;
    Matching how = {};
  };
  struct Found {
    const Token* token = nullptr;  // nullptr: none
    size_t at = 0;
  };

  explicit TokenIndex(std::vector<Token> tokens = {});

  // The first token of a text that begins at `from` or later; of those that begin at the same place the
  // longest.
  Found first(std::string_view text, size_t from) const;

 private:
  size_t may_begin(std::string_view text, size_t from) const;  // the text's size: nowhere

  std::vector<Token> tokens_;       // sorted by text
  std::array<bool, 256> begins_{};  // whether one begins with this byte
  std::optional<char> first_byte_;  // of all tokens, if they share it
};

// Const and safe for any thread.
class AddedTokens {
 public:
  using Token = TokenIndex::Token;

  explicit AddedTokens(std::vector<Token> tokens = {});

  // What a text becomes; `kept`: memory for it.
  using Normalize = std::function<std::string_view(std::string_view text, std::string& kept)>;

  // Cuts a text at its tokens, from left to right: of those that begin at the same place the longest. Calls
  // plain() for each part between them, none of which is empty, and token() for each of them.
  // `normalize` (optional): of what stands between tokens that are not normalized.
  void cut(std::string_view text, SpecialTokens special, const std::function<void(std::string_view)>& plain,
           const std::function<void(int32_t)>& token, const Normalize& normalize = nullptr) const;

  // The first token of those that are special.
  Tokenizer::Special first_special(std::string_view text) const;

  const std::vector<Token>& all() const { return tokens_; }

 private:
  std::vector<Token> tokens_;
  // By whether special tokens are found: the tokens looked for first, and those looked for in what is left.
  std::array<std::array<TokenIndex, 2>, 2> lists_;
  TokenIndex special_;
};

// FNV-1a, 64 bits.
class Fingerprint {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  void add(uint64_t number) {
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ (number >> (8 * i) & 0xff)) * 0x100000001b3;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

// Nothing where the token is found as "<|endoftext|>" is, so that keys of caches stay what they were.
inline void hash_matching(int32_t id, const Matching& how, Fingerprint& hash) {
  if (how.is_special && !how.takes_left && !how.takes_right) return;
  hash.add(static_cast<uint64_t>(id));
  for (const bool flag : {how.is_special, how.is_normalized, how.takes_left, how.takes_right})
    hash.add(uint64_t{flag});
}

}  // namespace pipeline::tokenizer
