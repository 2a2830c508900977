#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/vocabulary.hpp"

namespace pipeline::text {

// Puts a Vocabulary together from the entries of files and checks it: special tokens first, then tokens, then
// merges. Every member throws Error with the place given to it.
class VocabularyBuilder {
 public:
  // A special token, written as it is. It may come again among the tokens, with the same id.
  void add_special(const std::string& content, int64_t id, const std::string& place);

  // A token in GPT-2's byte alphabet.
  void add_token(const std::string& text, int64_t id, const std::string& place);

  // Call when all tokens are there: ids are 0 to n - 1, tokens are distinct, and each byte has its own.
  void check_tokens(const std::string& place);

  // The next merge, "left right", both tokens in the byte alphabet. `place` is called for an error only.
  void add_merge(std::string_view left, std::string_view right, const std::function<std::string()>& place);

  Vocabulary finish() { return std::move(vocabulary_); }

 private:
  struct Token {
    std::string bytes;
    int32_t id;
  };
  void insert(const std::string& text, std::string bytes, int64_t id, const std::string& place);
  int32_t id_of(const std::string& text, const std::function<std::string()>& place) const;

  Vocabulary vocabulary_;
  std::unordered_map<std::string, Token> tokens_;  // by their text in the file
  std::unordered_map<uint64_t, size_t> merge_ranks_;
};

}  // namespace pipeline::text
