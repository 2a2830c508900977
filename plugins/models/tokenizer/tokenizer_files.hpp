#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "files/regular_file.hpp"
#include "tokenizer/vocabulary.hpp"

namespace pipeline::tokenizer {

inline constexpr const char *kTokenizerJson = "tokenizer.json", *kTokenizerConfig = "tokenizer_config.json";

// A file's text and the name for it in errors.
struct NamedText {
  std::string path;
  std::string text;
};

// Texts by the names that Hugging Face gives the files.
using NamedFiles = std::map<std::string, NamedText>;
NamedFiles named(const std::map<std::string, std::string>& texts,
                 const std::string& prefix);  // of their paths
std::map<std::string, std::string> texts_of(const NamedFiles& files);

bool is_there(const std::filesystem::path& path);

// files::read_regular(). Throws TokenizerError.
NamedText read_file(const std::filesystem::path& path, uint64_t most_bytes = files::kMostTokens);

// Waits until it is on the disk. Throws TokenizerError where it cannot be written.
void write_file(const std::filesystem::path& path, const std::string& text);

// Waits until the names in a folder are on the disk, where its file system can.
void sync_folder(const std::filesystem::path& path);

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
