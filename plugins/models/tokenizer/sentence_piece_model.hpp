#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tokenizer/added_tokens.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace sentencepiece {
class SentencePieceProcessor;
}

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
  bool adds_begin = true, adds_end = false;     // around each text that Hugging Face's encode() is given
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

// SentencePiece's BPE in Hugging Face's tokenizer.json, as parse_tokenizer_file() has read it from `path`.
// Throws TokenizerError for whatever would make other ids than those of Hugging Face's.
std::unique_ptr<const Pieces> character_bpe(const nlohmann::json& file, const std::string& path);
// Whether a tokenizer.json is of this kind; false where it is of bytes, or no JSON.
bool is_character_bpe(const NamedText& file);

// A tokenizer.model as the library reads it.
struct SentencePieceModel final : Pieces {
  // Throws TokenizerError for what is no such file, or not a whole one.
  explicit SentencePieceModel(const NamedText& file);

  std::vector<int> encode(std::string_view text, TextPlace place) const override;

  // Processors: for a text that starts, as the file has it; and for one within, without the space before it.
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> start, within;

  bool is_llamas = false;  // BPE of texts as they are: what Hugging Face's tokenizer.json can say, too
};

// Hugging Face's tokenizer.json of this tokenizer, for models of pairs (BPE) as Llama's are. Without it,
// transformers 5 reads the tokenizer.model beside a LLaVA without the space before a text. `begin`: what is
// put before every text; -1: nothing. `after_special`: where a text stands that follows a special token.
std::string format_tokenizer_json(const SentencePieceModel& model,
                                  std::span<const AddedTokens::Token> special, int32_t begin,
                                  TextPlace after_special);

// The normalizer: puts the sign in place of spaces and, with adds_space, before each text and what follows a
// special token.
nlohmann::json sentence_piece_normalizer(bool adds_space);

// The decoder, which makes text of tokens. adds_space: the space before a text that starts is taken away.
nlohmann::json sentence_piece_decoder(bool adds_space);

}  // namespace pipeline::tokenizer
