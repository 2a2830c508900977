#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace pipeline::tokenizer {

// SentencePiece, the tokenizer of Llama 1 and 2, Vicuna and LLaVA 1.5: a tokenizer.model, by the library that
// makes such files, or a tokenizer.json that says the same; and what Hugging Face's added_tokens.json and
// tokenizer_config.json beside it add. Cheap to copy.
class SentencePiece final : public Tokenizer {
 public:
  // The file that this path means, itself or one in a folder: tokenizer.model, or else a tokenizer.json of
  // this kind; empty: there is none. Another kind of tokenizer.model, as Llama 3 has it, does not count where
  // there is a tokenizer.json, too.
  static std::filesystem::path find_model(const std::filesystem::path& path);
  static bool has_model(const std::filesystem::path& folder);  // a tokenizer.model, of whatever kind

  // Throws TokenizerError with the file and what is wrong with it.
  static SentencePiece load(const std::filesystem::path& model);

  void encode_append(std::string_view text, std::vector<int32_t>& ids,
                     SpecialTokens special = SpecialTokens::kAsText,
                     TextPlace place = TextPlace::kStart) const override;
  // The text without the space that encoding puts before it.
  std::string decode(std::span<const int32_t> ids) const override;
  std::string decode_bytes(std::span<const int32_t> ids) const override;

  std::optional<int32_t> special_token(std::string_view text) const override;
  bool is_special(int64_t id) const override;
  Special first_special(std::string_view text) const override;

  // The files as they were read, and those beside them; with a tokenizer_config.json where there was none;
  // and, for a tokenizer.model of Llama's kind, a tokenizer.json that says the same.
  void save(const std::string& folder) const override;

  TokenizerPtr with(const Files& more) const override;
  std::string state() const override;

  // Takes what load() reads; is_kind_of(): whether that is such a tokenizer.
  static bool is_kind_of(const NamedFiles& files);
  explicit SentencePiece(const NamedFiles& files);

 private:
  struct State;
  void encode_plain(std::string_view text, TextPlace place, std::vector<int32_t>& ids) const;

  std::shared_ptr<const State> state_;
};

}  // namespace pipeline::tokenizer
