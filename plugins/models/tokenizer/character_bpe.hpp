#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/bpe_model.hpp"
#include "tokenizer/pieces.hpp"
#include "tokenizer/text_file.hpp"

namespace pipeline::tokenizer {

class Section;

// SentencePiece's BPE in Hugging Face's tokenizer.json, as folders of Llama 1 and 2 have it without a
// tokenizer.model: characters, and bytes of those that are unknown, become tokens, which merge across the
// whole text.
class CharacterBpe final : public Pieces {
 public:
  // Whether a tokenizer.json is of this kind, not of bytes. Throws Error where it is no JSON.
  static bool is_kind_of(const NamedText& file);

  // Throws Error for whatever would make other ids than those of Hugging Face's.
  explicit CharacterBpe(const NamedText& file);

  std::vector<int> encode(std::string_view text, TextPlace place) const override;

 private:
  // The sign before a text that starts: as Metaspace puts it, not before one that begins with a space; or, as
  // the normalizer Prepend does, always.
  enum class Prefix { kNone, kUnlessThere, kAlways };

  using Ids = std::unordered_map<std::string, int32_t>;
  void read_prefix(const Section& file);
  Ids read_tokens(const Section& file, const Section& model);
  void append_unknown(std::string_view character, std::vector<int32_t>& tokens) const;

  std::unordered_map<uint32_t, int32_t> characters_;  // tokens by code point
  std::array<int32_t, 256> byte_ids_{};               // -1: none
  PairTable pairs_{std::span<const Merge>()};
  Prefix prefix_ = Prefix::kNone;
  bool fuses_unknown_ = false, lowers_ = false;
};

}  // namespace pipeline::tokenizer
