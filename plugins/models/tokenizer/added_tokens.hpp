#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace pipeline::text {

// How a token that was added to a vocabulary is found in a text, as Hugging Face's files say it.
struct Matching {
  bool is_special = true;                        // SpecialTokens says whether it is found; others always are
  bool is_normalized = false;                    // it is looked for in what is left between the others
  bool takes_left = false, takes_right = false;  // white space that stands there: lstrip, rstrip

  bool operator==(const Matching&) const = default;
};

// Const and safe for any thread.
class AddedTokens {
 public:
  struct Token {
    std::string_view text;  // outlives the object
    int32_t id;
    Matching how = {};
  };

  explicit AddedTokens(std::vector<Token> tokens = {});

  // Cuts a text at its tokens, from left to right: of those that begin at the same place the longest. Calls
  // plain() for each part between them, none of which is empty, and token() for each of them.
  // `is_composed`: what stands between tokens that are not normalized is composed() first.
  void cut(std::string_view text, SpecialTokens special, const std::function<void(std::string_view)>& plain,
           const std::function<void(int32_t)>& token, bool is_composed = false) const;

  // The first token of those that are special.
  Tokenizer::Special first_special(std::string_view text) const;

  const std::vector<Token>& all() const { return tokens_; }

 private:
  using List = std::vector<Token>;
  List tokens_;
  // By whether special tokens are found, those that are looked for first and those in what is left.
  std::array<std::array<List, 2>, 2> lists_;
};

}  // namespace pipeline::text
