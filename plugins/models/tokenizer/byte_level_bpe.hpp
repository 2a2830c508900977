#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace pipeline::tokenizer {

// Byte-level BPE as in GPT-2, SmolLM, Llama 3 and Qwen, with the same ids as OpenAI's and Hugging Face's for
// all valid UTF-8. Other bytes are encoded as they are, so that decode_bytes(encode(x)) == x for every x; but
// bytes that the vocabulary has no token for are left out (SmolLM lacks some rare ones), and Qwen's texts are
// brought to normal form C first. Immutable, cheap to copy, and safe for any thread.
class ByteLevelBpe final : public Tokenizer {
 public:
  // Reads a folder or one of its files: tokenizer.json, else vocab.json with merges.txt, else OpenAI's names
  // for these, encoder.json with vocab.bpe; and what tokenizer_config.json beside them says of the tokens
  // that begin and end a text. Throws TokenizerError with the file and the line or entry that is wrong.
  static ByteLevelBpe load(const std::string& path);

  // `files`: what the vocabulary was read from.
  explicit ByteLevelBpe(Vocabulary vocabulary, Files files = {});

  void encode_append(std::string_view text, std::vector<int32_t>& ids,
                     SpecialTokens special = SpecialTokens::kAsText,
                     TextPlace place = TextPlace::kStart) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string decode_bytes(std::span<const int32_t> ids) const override;

  const Vocabulary& vocabulary() const;
  std::optional<int32_t> special_token(std::string_view text) const override;
  bool is_special(int64_t id) const override;
  Special first_special(std::string_view text) const override;

  TokenizerPtr with(const Files& more) const override;

  // Writes its files; and, where they are not among them, tokenizer.json and tokenizer_config.json, and
  // vocab.json with merges.txt where these alone say the same.
  void save(const std::string& folder) const override;

  // The tokenizer's files; for one that was trained, a text in JSON. Throws TokenizerError for any other
  // text, which is called `name` then.
  std::string state() const override;
  static ByteLevelBpe from_state(std::string_view state, const std::string& name);

 private:
  struct State;
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;

  std::shared_ptr<const State> state_;
};

}  // namespace pipeline::tokenizer
