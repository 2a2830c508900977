#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/text_file.hpp"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace pipeline::text {

// A tokenizer.model as the library reads it.
struct SentencePieceModel {
  // Throws Error for what is no such file, or not a whole one.
  explicit SentencePieceModel(const NamedText& file);

  // For a text that starts, as the file has it; and for one within, without the space before it.
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> start, within;
  static std::vector<int> encode(const sentencepiece::SentencePieceProcessor& processor,
                                 std::string_view text);

  bool adds_space = true;  // before a text that starts
  bool is_llamas = false;  // BPE of texts as they are: what Hugging Face's tokenizer.json can say, too
};

}  // namespace pipeline::text
