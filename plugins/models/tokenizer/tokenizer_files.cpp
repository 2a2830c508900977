#include "tokenizer/tokenizer_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/base/foreign.hpp"
#include "core/json/strict_json.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;

struct FilePair {
  const char* vocab;
  const char* merges;
};
constexpr std::array<FilePair, 2> kPairs = {{{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}}};

// Reads a pair of files under GPT-2's names, whatever their own are.
NamedFiles read_pair(const fs::path& folder, const FilePair& pair) {
  // Hugging Face's slow tokenizers keep added tokens here; without them ids would be missing.
  if (is_there(folder / "added_tokens.json")) {
    throw TokenizerError((folder / "added_tokens.json").string() +
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
    throw TokenizerError(
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

// Call it before anything else can change errno.
TokenizerError system_error(const fs::path& path, const std::string& problem) {
  const int code = errno;
  return TokenizerError(path.string() + ": " + problem + ": " + std::strerror(code), code);
}

// Waits until a file, or the names in a folder, are on the disk. False: see errno.
bool sync(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::fsync(fd) == 0;
  const int code = errno;
  ::close(fd);
  errno = code;
  return done;
}

constexpr std::string_view kVersion = "#version: 0.2";

void add_merges(const NamedText& file, VocabularyBuilder& builder) {
  std::string_view rest = file.text;
  for (size_t line_number = 1; !rest.empty(); ++line_number) {
    const size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line_number == 1 && line.starts_with("#version")) continue;
    add_merge_text(
        line, [&] { return file.path + ":" + std::to_string(line_number); }, builder);
  }
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

namespace {

// RoBERTa's class puts tokens around a text of which vocab.json and merges.txt say nothing.
void frame_as_class(const NamedFiles& files, Vocabulary& vocabulary) {
  const auto config = files.find(kTokenizerConfig);
  const json values = config == files.end() ? json() : parse_tokenizer_file(config->second);
  const json kind = values.is_object() ? values.value("tokenizer_class", json()) : json();
  if (kind != "RobertaTokenizer" && kind != "RobertaTokenizerFast") return;
  if (vocabulary.begin_of_text < 0 || vocabulary.end_of_text < 0)
    throw TokenizerError(config->second.path + ": tokenizer_class = " + kind.dump() +
                         " puts tokens around each text: it must name them as bos_token and eos_token");
  vocabulary.adds_begin_of_text = true;
}

}  // namespace

Vocabulary parse_vocabulary(const NamedFiles& files) {
  const auto json_form = files.find(kTokenizerJson);
  Vocabulary vocabulary = json_form != files.end()
                              ? parse_tokenizer_json(json_form->second)
                              : parse_vocab_and_merges(files.at(kPairs[0].vocab), files.at(kPairs[0].merges));
  if (const auto config = files.find(kTokenizerConfig); config != files.end())
    read_tokenizer_config(config->second, vocabulary);
  if (const NamedText* const map = special_tokens_map(files)) read_special_tokens(*map, vocabulary);
  if (json_form == files.end()) frame_as_class(files, vocabulary);
  return vocabulary;
}

const NamedText* special_tokens_map(const NamedFiles& files) {
  const auto map = files.find("special_tokens_map.json"), config = files.find(kTokenizerConfig);
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
              {kTokenizerConfig, format_tokenizer_config(vocabulary)}};
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

NamedFiles named(const std::map<std::string, std::string>& texts, const std::string& prefix) {
  NamedFiles files;
  for (const auto& [name, text] : texts) files[name] = {prefix + name, text};
  return files;
}

std::map<std::string, std::string> texts_of(const NamedFiles& files) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, file] : files) texts[name] = file.text;
  return texts;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

NamedText read_file(const fs::path& path, uint64_t most_bytes) {
  try {
    return {path.string(), files::read_regular(path.string(), most_bytes)};
  } catch (const files::DataError& error) {
    throw TokenizerError(error.what(), error.code());
  }
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream || !sync(path)) throw system_error(path, "cannot be written");
}

void sync_folder(const fs::path& path) { sync(path); }

json parse_tokenizer_file(const NamedText& file) {
  try {
    return strict_json::parse(file.text, file.path);
  } catch (const strict_json::JsonError& error) {
    throw TokenizerError(error.what());
  }
}

void add_vocab(const json& vocab, const std::string& place, VocabularyBuilder& builder) {
  if (!vocab.is_object()) throw TokenizerError(place + ": must be an object of ids by token");
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_unsigned()) {
      throw TokenizerError(place + ": id of " + strict_json::excerpt(token) + " = " +
                           strict_json::excerpt(id) + ": must be a non-negative integer");
    }
    builder.add_token(token, id_of(id), place);
  }
  builder.check_tokens(place);
}

int64_t id_of(const json& number) {
  const auto id = number.get<uint64_t>();
  return id > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(id);
}

void add_merge_text(std::string_view text, const std::function<std::string()>& place,
                    VocabularyBuilder& builder) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == text.size() ||
      text.find(' ', space + 1) != std::string_view::npos) {
    throw TokenizerError(place() + ": " + strict_json::excerpt(std::string(text)) +
                         ": must be two tokens with one space between");
  }
  builder.add_merge(text.substr(0, space), text.substr(space + 1), place);
}

Vocabulary parse_vocab_and_merges(const NamedText& vocab, const NamedText& merges) {
  const json object = parse_tokenizer_file(vocab);
  const auto has = [&](const std::string& token) { return object.is_object() && object.contains(token); };
  const bool is_clip = has(kClipBegin) && has(std::string("!") + kWordEnd);
  VocabularyBuilder builder(is_clip ? PreTokenizer::kClip : PreTokenizer::kGpt2);
  if (is_clip && object[kClipBegin].is_number_unsigned())
    builder.add_added(kClipBegin, id_of(object[kClipBegin]), {}, vocab.path);
  if (object.is_object() && object.contains(kEndOfText) && object[kEndOfText].is_number_unsigned()) {
    builder.add_added(kEndOfText, id_of(object[kEndOfText]), {}, vocab.path);
  }
  add_vocab(object, vocab.path, builder);
  add_merges(merges, builder);
  Vocabulary vocabulary = builder.finish();
  if (is_clip) {
    vocabulary.is_composed = true;
    vocabulary.begin_of_text = special_token(vocabulary, kClipBegin);
    vocabulary.end_of_text = special_token(vocabulary, kEndOfText);
    vocabulary.adds_begin_of_text = true;
    if (vocabulary.begin_of_text < 0 || vocabulary.end_of_text < 0)
      throw TokenizerError(vocab.path + ": " + kClipBegin + " and " + kEndOfText +
                           " must both be tokens of CLIP's");
  }
  return vocabulary;
}

std::vector<std::string> token_texts(const Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  for (const std::string& token : vocabulary.tokens) {
    const bool ends_word = vocabulary.ends_words() && token.size() > 1 && token.ends_with(' ');
    texts.push_back(ends_word ? to_alphabet(std::string_view(token).substr(0, token.size() - 1)) + kWordEnd
                              : to_alphabet(token));
  }
  for (const Added& token : vocabulary.added) texts[static_cast<size_t>(token.id)] = token.text;
  return texts;
}

std::string format_vocab_json(const Vocabulary& vocabulary) {
  std::string text = "{";
  int32_t id = 0;
  for (const std::string& token : token_texts(vocabulary)) {
    text += (id == 0 ? "" : ", ") + json(token).dump() + ": " + std::to_string(id);
    ++id;
  }
  return text + "}";
}

std::string format_merges(const Vocabulary& vocabulary) {
  const std::vector<std::string> texts = token_texts(vocabulary);
  std::string text = std::string(kVersion) + "\n";
  for (const Merge& merge : vocabulary.merges) {
    text += texts[static_cast<size_t>(merge.left)] + " " + texts[static_cast<size_t>(merge.right)] + "\n";
  }
  return text;
}

}  // namespace pipeline::tokenizer
