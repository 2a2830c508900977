#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/added_tokens.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json_parts.hpp"

namespace pipeline::tokenizer {

// A model of tokens that cuts each word of a text by itself, with what its files do to a text first. Const
// and safe for any thread.
class WordModel {
 public:
  virtual ~WordModel() = default;

  // Adds a token that is looked for in texts, from the list of a tokenizer.json. Throws TokenizerError where
  // another has its id; `place`: for that.
  void add(const std::string& token, uint64_t id, const std::string& place);
  // Throws TokenizerError where an id below the largest has no token.
  void require_all(const std::string& place) const;

  virtual std::string normalized(std::string_view text) const = 0;
  // Texts do not become these tokens, which stand for themselves.
  virtual void set_special(const std::vector<int32_t>& /*ids*/) {}
  // Of a normalized text.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;
  // The text that a token adds to what stands before it. is_special: it is no word.
  virtual std::string text_of(int32_t id, bool is_special) const = 0;
  // What else ids depend on.
  virtual void hash(Fingerprint& hash) const = 0;

  const std::vector<std::string>& tokens() const { return tokens_; }  // by id
  std::optional<int32_t> number_of(std::string_view token) const;

 protected:
  int32_t required(const std::string& token, const std::string& place) const;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Numbers = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;

  std::vector<std::string> tokens_;
  Numbers numbers_;
};

// WordPiece as BERT has it (Devlin et al., arXiv:1810.04805): words and punctuation, each cut from its left
// into the longest tokens that there are, "play", "##ing"; a word that cannot be cut is the unknown token.
// Of a tokenizer.json, or of vocab.txt, whose options `config` has: tokenizer_config.json.
std::unique_ptr<WordModel> word_piece(const Section& file, const Section& config);
std::unique_ptr<WordModel> word_piece(const NamedText& vocabulary, const Section& config);

// Unigrams of SentencePiece (Kudo, arXiv:1804.10959), as XLM-RoBERTa has them: of all ways to cut a word the
// one whose tokens have the highest sum of logarithms of probabilities.
std::unique_ptr<WordModel> unigram(const Section& file);

}  // namespace pipeline::tokenizer
