// How a SigLIP's texts are made, as the class of its tokenizer in transformers makes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace pipeline::tasks::contrastive {

struct TextRules {
  bool is_lowered = false;
  bool is_canonical = false;  // without punctuation, words with one space between them: SigLIP 1
  bool is_padded_left = false;
  int64_t padding = 0;  // the token
  std::string unknown;  // the token's name
  std::string problem;  // why texts cannot be made so; empty: they can
};

// tokenizer_config.json's: Siglip2Tokenizer makes letters small, and so does do_lower_case; SiglipTokenizer
// takes punctuation out as well; pad_token, without which a text is padded with the token that ends it.
TextRules text_rules(const tokenizer::Tokenizer& tokenizer);

// The tokens of a text, without those that end and pad it.
std::vector<int32_t> encode(const tokenizer::Tokenizer& tokenizer, const TextRules& rules,
                            std::string_view text);

}  // namespace pipeline::tasks::contrastive
