#include "tokenizer/tokenizer_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "core/base/foreign.hpp"
#include "tokenizer/vocabulary.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;

constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kConfig = "tokenizer_config.json";

struct FilePair {
  const char* vocab;
  const char* merges;
};
constexpr std::array<FilePair, 2> kPairs = {{{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}}};

// Reads a pair of files under GPT-2's names, whatever their own are.
NamedFiles read_pair(const fs::path& folder, const FilePair& pair) {
  // Hugging Face's slow tokenizers keep added tokens here; without them ids would be missing.
  if (is_there(folder / "added_tokens.json")) {
    throw Error((folder / "added_tokens.json").string() +
                ": added tokens are read from tokenizer.json only: save the tokenizer in that form");
  }
  return {{kPairs[0].vocab, read_file(folder / pair.vocab)},
          {kPairs[0].merges, read_file(folder / pair.merges)}};
}

// Reads the files of the tokens, without what lies beside them.
NamedFiles read_tokens(const fs::path& path, bool is_folder) {
  if (is_folder) {
    if (is_there(path / kTokenizerJson)) return {{kTokenizerJson, read_file(path / kTokenizerJson)}};
    for (const FilePair& pair : kPairs) {
      if (is_there(path / pair.vocab)) return read_pair(path, pair);
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
      return read_pair(path.parent_path(), pair);
  }
  return {{kTokenizerJson, read_file(path)}};
}

}  // namespace

bool has_byte_level_files(const fs::path& folder) {
  return is_there(folder / kTokenizerJson) ||
         std::any_of(kPairs.begin(), kPairs.end(),
                     [&](const FilePair& pair) { return is_there(folder / pair.vocab); });
}

NamedFiles read_byte_level_files(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  NamedFiles files = read_tokens(path, is_folder);
  files.merge(named(files_beside_tokenizer(folder), (folder / "").string()));
  return files;
}

Vocabulary parse_vocabulary(const NamedFiles& files) {
  const auto json_form = files.find(kTokenizerJson);
  Vocabulary vocabulary = json_form != files.end()
                              ? parse_tokenizer_json(json_form->second)
                              : parse_vocab_and_merges(files.at(kPairs[0].vocab), files.at(kPairs[0].merges));
  if (const auto config = files.find(kConfig); config != files.end())
    read_tokenizer_config(config->second, vocabulary);
  if (const NamedText* const map = special_tokens_map(files)) read_special_tokens(*map, vocabulary);
  return vocabulary;
}

const NamedText* special_tokens_map(const NamedFiles& files) {
  const auto map = files.find("special_tokens_map.json"), config = files.find(kConfig);
  if (map == files.end()) return nullptr;
  const json values = config == files.end() ? json() : parse_tokenizer_file(config->second);
  return values.is_object() && values.contains("added_tokens_decoder") ? nullptr : &map->second;
}

bool has_tokens(const Files& files) {
  return files.contains(kTokenizerJson) ||
         (files.contains(kPairs[0].vocab) && files.contains(kPairs[0].merges));
}

Files format_vocabulary(const Vocabulary& vocabulary) {
  Files files{{kTokenizerJson, format_tokenizer_json(vocabulary)},
              {kConfig, format_tokenizer_config(vocabulary)}};
  // vocab.json with merges.txt is always read as GPT-2's, with its one special token.
  const bool is_gpt2 =
      vocabulary.pre_tokenizer == PreTokenizer::kGpt2 && !vocabulary.ignore_merges && !vocabulary.is_composed;
  const bool has_others = vocabulary.added.size() > (special_token(vocabulary, kEndOfText) < 0 ? 0u : 1u);
  if (is_gpt2 && !has_others) {
    files[kPairs[0].vocab] = format_vocab_json(vocabulary);
    files[kPairs[0].merges] = format_merges(vocabulary);
  }
  return files;
}

}  // namespace pipeline::tokenizer
