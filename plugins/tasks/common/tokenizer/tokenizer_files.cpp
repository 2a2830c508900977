#include "tokenizer/tokenizer_files.hpp"

#include <array>
#include <filesystem>

#include "core/base/foreign.hpp"
#include "tokenizer/vocabulary.hpp"

namespace pipeline::text {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kConfig = "tokenizer_config.json";

struct FilePair {
  const char* vocab;
  const char* merges;
};
constexpr std::array<FilePair, 2> kPairs = {{{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}}};

Vocabulary load_pair(const fs::path& folder, const FilePair& pair) {
  // Hugging Face's slow tokenizers keep added tokens here; without them ids would be missing.
  if (is_there(folder / "added_tokens.json")) {
    throw Error((folder / "added_tokens.json").string() +
                ": added tokens are read from tokenizer.json only: save the tokenizer in that form");
  }
  return parse_vocab_and_merges(read_file(folder / pair.vocab), read_file(folder / pair.merges));
}

// Without the config.
Vocabulary load_tokens(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (is_there(path / kTokenizerJson)) return parse_tokenizer_json(read_file(path / kTokenizerJson));
    for (const FilePair& pair : kPairs) {
      if (is_there(path / pair.vocab)) return load_pair(path, pair);
    }
    const std::string found = foreign::folder(path);
    throw Error(
        path.string() + ": " +
        (found.empty()
             ? "has no tokenizer: neither tokenizer.json, tokenizer.model nor vocab.json with merges.txt"
             : found));
  }
  for (const FilePair& pair : kPairs) {
    if (path.filename() == pair.vocab || path.filename() == pair.merges)
      return load_pair(path.parent_path(), pair);
  }
  return parse_tokenizer_json(read_file(path));
}

}  // namespace

Vocabulary load_vocabulary(const std::string& path) {
  Vocabulary vocabulary = load_tokens(path);
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path, ignored) ? fs::path(path) : fs::path(path).parent_path();
  if (is_there(folder / kConfig)) read_tokenizer_config(read_file(folder / kConfig), vocabulary);
  return vocabulary;
}

void save_vocabulary(const Vocabulary& vocabulary, const std::string& folder) {
  const fs::path base(folder);
  // This form is always read as GPT-2's, with its one special token.
  const bool is_gpt2 = vocabulary.pre_tokenizer == PreTokenizer::kGpt2 && !vocabulary.ignore_merges;
  const bool has_others = vocabulary.special.size() > (special_token(vocabulary, kEndOfText) < 0 ? 0u : 1u);
  if (is_gpt2 && !has_others) {
    write_file(base / kPairs[0].vocab, format_vocab_json(vocabulary));
    write_file(base / kPairs[0].merges, format_merges(vocabulary));
  }
  write_file(base / kTokenizerJson, format_tokenizer_json(vocabulary));
  write_file(base / kConfig, format_tokenizer_config(vocabulary));
  sync_folder(base);
}

}  // namespace pipeline::text
