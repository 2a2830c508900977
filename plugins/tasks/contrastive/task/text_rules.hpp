// How a SigLIP's texts are made, as the class of its tokenizer in transformers makes them.
#pragma once

#include <cstdint>
#include <string>

#include "tokenizer/tokenizer.hpp"

namespace pipeline::contrastive {

struct TextRules {
  bool is_lowered = false;
  bool is_padded_left = false;
  int64_t padding = 0;  // the token
  std::string problem;  // why texts cannot be made so; empty: they can
};

// By tokenizer_config.json: Siglip2Tokenizer makes letters small, and so does do_lower_case; pad_token,
// without which a text is padded with the token that ends it.
TextRules text_rules(const text::Tokenizer& tokenizer);

}  // namespace pipeline::contrastive
