#pragma once

#include <cstdint>
#include <memory>
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

// GPT-2's tokenizer: byte-level BPE, with the same ids as OpenAI's and Hugging Face's for all valid UTF-8.
// Other bytes are encoded as they are, so that decode_bytes(encode(x)) == x for every x. Immutable, cheap to
// copy, and safe for any thread.
class ByteLevelBpe {
 public:
  // From a folder or one of its files: tokenizer.json, else vocab.json with merges.txt, else OpenAI's names
  // for these, encoder.json with vocab.bpe. Throws Error with the file and the line or entry that is wrong.
  static ByteLevelBpe load(const std::string& path);

  explicit ByteLevelBpe(Vocabulary vocabulary);

  std::vector<int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::kAsText) const;
  void encode_append(std::string_view text, std::vector<int32_t>& ids,
                     SpecialTokens special = SpecialTokens::kAsText) const;

  // Valid UTF-8: what is not becomes U+FFFD. Throws Error for an id that is not in the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  std::string decode_bytes(std::span<const int32_t> ids) const;

  const Vocabulary& vocabulary() const;
  int32_t vocab_size() const;

  // The id of "<|endoftext|>". Throws Error where there is none.
  int32_t eot() const;
  bool has_eot() const;

  // The same for the same vocabulary, merges and special tokens, on any machine: for keys of caches.
  uint64_t fingerprint() const;

  // Writes vocab.json, merges.txt and tokenizer.json, each complete in itself, into an existing folder, and
  // waits until they are on the disk.
  void save(const std::string& folder) const;

 private:
  struct State;
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;

  std::shared_ptr<const State> state_;
};

}  // namespace pipeline::text
