#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/vocabulary.hpp"

namespace pipeline::tokenizer {

// How GPT-2's files write bytes as printable characters: 33-126, 161-172 and 174-255 stand for themselves,
// the other 68 bytes, in order, for U+0100 onwards. A space is "Ġ", a newline "Ċ".
std::string to_alphabet(std::string_view bytes);

// nullopt where a character is not of the alphabet or the text is not UTF-8.
std::optional<std::string> from_alphabet(std::string_view text);

// The bytes in the order that GPT-2's vocabulary gives them: that of their characters.
const std::array<uint8_t, 256>& alphabet_order();

// Puts a Vocabulary together from the entries of files and checks it: added tokens first, then tokens, then
// merges. Every member throws TokenizerError with the place given to it.
class VocabularyBuilder {
 public:
  explicit VocabularyBuilder(PreTokenizer pre_tokenizer = PreTokenizer::kGpt2) {
    vocabulary_.pre_tokenizer = pre_tokenizer;
  }

  // An added token, written as it is. It may come again among the tokens, with the same id.
  void add_added(const std::string& content, int64_t id, const Matching& how, const std::string& place);

  // A token in GPT-2's byte alphabet.
  void add_token(const std::string& text, int64_t id, const std::string& place);

  // Call when all tokens are there: ids are 0 to n - 1, and each byte that must have one has its own.
  void check_tokens(const std::string& place);
  bool has_all_bytes() const { return has_all_bytes_; }

  // The next merge, "left right", both tokens in the byte alphabet. `place` is called for an error only.
  void add_merge(std::string_view left, std::string_view right, const std::function<std::string()>& place);

  Vocabulary finish() { return std::move(vocabulary_); }

 private:
  struct Token {
    std::string bytes;
    int32_t id;
  };
  std::optional<std::string> bytes_of(std::string_view text) const;  // of a token as files write it
  void insert(const std::string& text, std::string bytes, int64_t id, const std::string& place);
  int32_t id_of(const std::string& text, const std::function<std::string()>& place) const;

  Vocabulary vocabulary_;
  bool has_all_bytes_ = true;
  std::unordered_map<std::string, Token> tokens_;  // by their text in the file
  std::unordered_map<uint64_t, size_t> merge_ranks_;
};

nlohmann::json parse_tokenizer_file(const NamedText& file);

// All of an object of ids by token, checked.
void add_vocab(const nlohmann::json& vocab, const std::string& place, VocabularyBuilder& builder);

// The id that a file's unsigned number is; too large ones stay too large.
int64_t id_of(const nlohmann::json& number);

// "left right".
void add_merge_text(std::string_view text, const std::function<std::string()>& place,
                    VocabularyBuilder& builder);

// Each token as files write it, by id.
std::vector<std::string> token_texts(const Vocabulary& vocabulary);

}  // namespace pipeline::tokenizer
