#pragma once

#include <string>
#include <string_view>

#include "tokenizer/text_file.hpp"
#include "tokenizer/vocabulary.hpp"

namespace pipeline::tokenizer {

// See ByteLevelBpe::load() and save().
bool has_byte_level_files(const std::filesystem::path& folder);
NamedFiles read_byte_level_files(const std::string& path);
Vocabulary parse_vocabulary(const NamedFiles& files);
Files format_vocabulary(const Vocabulary& vocabulary);
bool has_tokens(const Files& files);

// GPT-2's own form: vocab.json, an object of ids by token, and merges.txt, "#version" on the first line (it
// may be missing), then "left right" on each. "<|endoftext|>" is special where it is a token.
Vocabulary parse_vocab_and_merges(const NamedText& vocab, const NamedText& merges);
std::string format_vocab_json(const Vocabulary& vocabulary);
std::string format_merges(const Vocabulary& vocabulary);

// Hugging Face's one-file form. Anything that would make the ids differ from the rules of GPT-2, SmolLM,
// Llama 3 or Qwen (another normalizer, pre-tokenizer or model, options of these) is an error; `truncation`
// and `padding` say nothing about ids and are for the caller.
Vocabulary parse_tokenizer_json(const NamedText& file);
std::string format_tokenizer_json(const Vocabulary& vocabulary);

// The file beside it that names the tokens which end and begin a text: eos_token and bos_token.
void read_tokenizer_config(const NamedText& file, Vocabulary& vocabulary);
// special_tokens_map.json, which names them where the configuration has no added_tokens_decoder, as
// transformers has it; nullptr: it does not. A token that the vocabulary lacks, which transformers would give
// an id that no model has, is passed over.
const NamedText* special_tokens_map(const NamedFiles& files);
void read_special_tokens(const NamedText& file, Vocabulary& vocabulary);
std::string format_tokenizer_config(const Vocabulary& vocabulary);

// Both files in one, for checkpoints: tokenizer.json, with eos_token and bos_token where the vocabulary has
// them from files.
Vocabulary parse_tokenizer_state(const NamedText& state);
std::string format_tokenizer_state(const Vocabulary& vocabulary);

}  // namespace pipeline::tokenizer
