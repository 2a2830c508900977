#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tokenizer/added_tokens.hpp"
#include "tokenizer/sentence_piece_model.hpp"

namespace pipeline::tokenizer {

// Hugging Face's tokenizer.json of this tokenizer, for models of pairs (BPE) as Llama's are. Without it,
// transformers 5 reads the tokenizer.model beside a LLaVA without the space before a text. `begin`: what is
// put before every text; -1: nothing. `after_special`: where a text stands that follows a special token.
std::string format_tokenizer_json(const SentencePieceModel& model,
                                  std::span<const AddedTokens::Token> special, int32_t begin,
                                  TextPlace after_special);

// The normalizer: puts the sign in place of spaces and, with adds_space, before each text and what follows a
// special token.
nlohmann::json sentence_piece_normalizer(bool adds_space);

// The decoder, which makes text of tokens. adds_space: the space before a text that starts is taken away.
nlohmann::json sentence_piece_decoder(bool adds_space);

}  // namespace pipeline::tokenizer
