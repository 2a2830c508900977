#include "tokenizer/tokenizer_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

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

// Call it before anything else can change errno.
Error system_error(const fs::path& path, const std::string& problem) {
  const int code = errno;
  return Error(path.string() + ": " + problem + ": " + std::strerror(code), code);
}

NamedText read_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw Error(path.string() + ": is a folder, expected a file");
  std::ifstream stream(path, std::ios::binary);
  NamedText file{path.string(), std::string(std::istreambuf_iterator<char>(stream), {})};
  if (!stream || stream.bad()) throw system_error(path, "cannot be read");
  return file;
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

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream || !sync(path)) throw system_error(path, "cannot be written");
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

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
    throw Error(path.string() + ": has no tokenizer: neither tokenizer.json nor vocab.json with merges.txt");
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
  sync(base);  // not every file system can; the files themselves are there
}

}  // namespace pipeline::text
