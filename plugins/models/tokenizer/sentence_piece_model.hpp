#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pieces.hpp"
#include "tokenizer/text_file.hpp"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace pipeline::tokenizer {

// A tokenizer.model as the library reads it.
struct SentencePieceModel final : Pieces {
  // Throws Error for what is no such file, or not a whole one.
  explicit SentencePieceModel(const NamedText& file);

  std::vector<int> encode(std::string_view text, TextPlace place) const override;

  // Processors: for a text that starts, as the file has it; and for one within, without the space before it.
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> start, within;

  bool is_llamas = false;  // BPE of texts as they are: what Hugging Face's tokenizer.json can say, too
};

}  // namespace pipeline::tokenizer
