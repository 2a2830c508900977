#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.hpp"

namespace pipeline::text {

// What becomes of "<|endoftext|>" and other special tokens that stand in a text.
enum class SpecialTokens {
  kAsText,     // they are letters like any other: for text from outside
  kRecognize,  // each becomes its one token, as in Hugging Face's encode()
};

// Byte-level BPE as of GPT-2, SmolLM and Llama 3, with the same ids as OpenAI's and Hugging Face's for all
// valid UTF-8. Other bytes are encoded as they are, so that decode_bytes(encode(x)) == x for every x; but
// bytes that the vocabulary has no token for are left out (SmolLM lacks some rare ones). Immutable, cheap to
// copy, and safe for any thread.
class ByteLevelBpe {
 public:
  // From a folder or one of its files: tokenizer.json, else vocab.json with merges.txt, else OpenAI's names
  // for these, encoder.json with vocab.bpe; and what tokenizer_config.json beside them says of the tokens
  // that begin and end a text. Throws Error with the file and the line or entry that is wrong.
  static ByteLevelBpe load(const std::string& path);

  explicit ByteLevelBpe(Vocabulary vocabulary);

  // Never adds a token at the begin or end of a text, also where Hugging Face's encode() adds bos().
  std::vector<int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::kAsText) const;
  void encode_append(std::string_view text, std::vector<int32_t>& ids,
                     SpecialTokens special = SpecialTokens::kAsText) const;

  // Valid UTF-8: what is not becomes U+FFFD. Throws Error for an id that is not in the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  std::string decode_bytes(std::span<const int32_t> ids) const;

  const Vocabulary& vocabulary() const;
  int32_t vocab_size() const;

  // The special token that ends a text: eos_token of tokenizer_config.json, else "<|endoftext|>", else
  // "<|end_of_text|>". Throws Error where there is none.
  int32_t eot() const;
  bool has_eot() const;

  // The special token that may begin a text, if the files name one; and whether Hugging Face's encode() puts
  // it before every text.
  std::optional<int32_t> bos() const;
  bool adds_bos() const;

  // The same for the same vocabulary, merges and special tokens, on any machine: for keys of caches.
  uint64_t fingerprint() const;

  // Writes tokenizer.json and tokenizer_config.json into an existing folder, and vocab.json with merges.txt
  // where these alone say the same; waits until they are on the disk.
  void save(const std::string& folder) const;

  // All of it as a text, for checkpoints. Throws Error for what is no such text; `name` stands for it then.
  std::string state() const;
  static ByteLevelBpe from_state(std::string_view state, const std::string& name);

 private:
  struct State;
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;

  std::shared_ptr<const State> state_;
};

}  // namespace pipeline::text
