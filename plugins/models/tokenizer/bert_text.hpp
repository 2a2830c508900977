#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace pipeline::tokenizer {

// How BERT's tokenizers read a text: BertNormalizer and BertPreTokenizer of Hugging Face's tokenizers.
struct BertText {
  bool cleans = true;            // control characters go, white space becomes U+0020
  bool parts_ideographs = true;  // each of Chinese writing is a word
  bool strips_accents = true;    // in normal form D, without its nonspacing marks
  bool lowers = true;            // small letters

  std::string normalized(std::string_view text) const;
};

// Calls word() with each word of a normalized text, from left to right: what stands between white space and
// punctuation, and each punctuation mark.
void each_bert_word(std::string_view text, const std::function<void(std::string_view word)>& word);

}  // namespace pipeline::tokenizer
