#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tokenizer/byte_level_bpe.hpp"

namespace pipeline::tokenizer {

struct TrainerOptions {
  // Tokens in all: 256 bytes, then one a merge, then "<|endoftext|>" as the last. At least 257.
  int32_t vocab_size = 8192;
  // A pair that stands side by side less often is not merged; the vocabulary may then stay smaller than asked
  // for.
  int64_t min_frequency = 2;
  // Called with the tokens so far, often; may throw to stop.
  std::function<void(int32_t tokens)> on_token = nullptr;
};

// Learns a tokenizer from text: over and over, the pair of tokens that stands side by side most often inside
// the pieces of the text becomes a token; of equals, the pair with the smaller left, then right, id. The same
// text in any order and any parts gives the same tokenizer, and its merges are those of Hugging Face's
// BpeTrainer with the ByteLevel alphabet, but that here a piece of more than 512 bytes counts as several.
//
//   BpeTrainer trainer;
//   for (const std::string& text : texts) trainer.add(text);
//   ByteLevelBpe tokenizer = trainer.train({.vocab_size = 8192});
class BpeTrainer {
 public:
  // Counts the pieces of a text. Memory grows with the number of different pieces.
  void add(std::string_view text);

  // Throws TokenizerError for a vocabulary that is too small, or when no text was added.
  ByteLevelBpe train(const TrainerOptions& options) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  void count(std::string_view piece);

  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> piece_counts_;
};

}  // namespace pipeline::tokenizer
