#pragma once

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

// WordPiece and unigrams, as the encoders of texts have them, with the ids of Hugging Face's tokenizers. What
// begins and ends a text are [CLS] and [SEP], or what the files call so. Immutable, cheap to copy, and safe
// for any thread.
class WordTokenizer final : public Tokenizer {
 public:
  // The file of a folder, or this file, that such a tokenizer is read from: tokenizer.json, else vocab.txt.
  // Empty: there is none.
  static std::filesystem::path find(const std::filesystem::path& path);
  static bool is_kind_of(const NamedFiles& files);
  // Throws TokenizerError with the file and the entry that is wrong.
  static WordTokenizer load(const std::filesystem::path& file);
  explicit WordTokenizer(const NamedFiles& files);

  void encode_append(std::string_view text, std::vector<int32_t>& ids,
                     SpecialTokens special = SpecialTokens::kAsText,
                     TextPlace place = TextPlace::kStart) const override;
  // A text without the white space that its tokens do not have.
  std::string decode(std::span<const int32_t> ids) const override;
  // Words with a space before each.
  std::string decode_bytes(std::span<const int32_t> ids) const override;

  std::optional<int32_t> special_token(std::string_view text) const override;
  bool is_special(int64_t id) const override;
  Special first_special(std::string_view text) const override;

  TokenizerPtr with(const Files& more) const override;
  void save(const std::string& folder) const override;
  std::string state() const override;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace pipeline::tokenizer
