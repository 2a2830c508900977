#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/error.hpp"

namespace pipeline::tokenizer {

// Texts of a Hugging Face folder by the names of their files: what a tokenizer is read from, and what lies
// beside it and beside a model's weights. They go from the folder that a run starts from, through its
// checkpoints, to the one that it exports, as they are.
using Files = std::map<std::string, std::string>;

// The files that save_pretrained() writes beside a tokenizer's tokens: tokenizer_config.json, chat templates,
// ...; and beside a model's weights.
Files files_beside_tokenizer(const std::filesystem::path& folder);
inline constexpr std::initializer_list<const char*> kLanguageModelFiles{"config.json",
                                                                        "generation_config.json"};
inline constexpr std::initializer_list<const char*> kVisionModelFiles{"preprocessor_config.json",
                                                                      "processor_config.json"};
inline constexpr std::initializer_list<const char*> kSentenceModelFiles{"config_sentence_transformers.json"};
inline constexpr std::initializer_list<const char*> kModelFiles{
    "config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json",
    "config_sentence_transformers.json"};
// Those of these names that are there. Throws TokenizerError where one cannot be read, is no UTF-8, is no
// JSON although its name says so, or has more than 4 MiB.
Files files_of(const std::filesystem::path& folder, std::initializer_list<const char*> names);

// Whether a tokenizer with these files is the folder's, which may have none of its own.
bool is_of_folder(const Files& tokenizer, const std::filesystem::path& folder);

// Whether a folder's file of this name can be among these.
bool is_folder_file(const std::string& name);

// Files as one text for checkpoints, and back. unpack() throws TokenizerError for any other text, and for
// names that is_folder_file() refuses; `name` stands for the text then.
std::string pack(const Files& files);
bool is_packed(std::string_view text);
Files unpack(std::string_view text, const std::string& name);

// Writes a tokenizer's files; a model's are written by who exports it. Waits until they are on the disk.
void write_tokenizer_files(const Files& files, const std::filesystem::path& folder);

// What is wrong with a tokenizer's files, or with ids given to it: the file, the line or entry, what was
// expected.
class TokenizerError : public files::DataError {
 public:
  using DataError::DataError;
};

// What becomes of "<|endoftext|>", "</s>" and other special tokens that stand in a text.
enum class SpecialTokens {
  kAsText,     // they are letters like any other: for text from outside. Added tokens that the files call
               // not special are words of the vocabulary, and found in any case
  kRecognize,  // each becomes its one token, as in Hugging Face's encode()
};

// Where a text stands. SentencePiece puts a space before one that starts, so that its first word is the same
// token as within; byte-level BPE does not care.
enum class TextPlace { kStart, kWithin };

class Tokenizer;
using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// Text to tokens and back. Immutable and safe for any thread. One call is a whole text: no call per token.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Never adds a token at the begin or end of a text, also where Hugging Face's encode() adds bos().
  std::vector<int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::kAsText,
                              TextPlace place = TextPlace::kStart) const;
  virtual void encode_append(std::string_view text, std::vector<int32_t>& ids,
                             SpecialTokens special = SpecialTokens::kAsText,
                             TextPlace place = TextPlace::kStart) const = 0;

  // The text of ids, as one that starts: valid UTF-8, what is not becomes U+FFFD. Throws TokenizerError for
  // an id that is not in the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // The bytes of ids as they stand within a text, so that parts that come one after the other can be put
  // together: a part may end inside of a character.
  virtual std::string decode_bytes(std::span<const int32_t> ids) const = 0;

  int32_t vocab_size() const { return facts_.vocab_size; }

  // The special or added token that reads so, such as "<image>"; and whether a token is one.
  virtual std::optional<int32_t> special_token(std::string_view text) const = 0;
  virtual bool is_special(int64_t id) const = 0;

  // The first token in a text that SpecialTokens::kRecognize finds and kAsText does not: where it stands and
  // how long it is; 0 bytes: there is none.
  struct Special {
    size_t at = 0, bytes = 0;
  };
  virtual Special first_special(std::string_view text) const = 0;

  // The special token that ends a text. eot() throws TokenizerError where there is none.
  bool has_eot() const { return facts_.eot >= 0; }
  int32_t eot() const;

  // The special token that may begin a text, if the files name one; and whether Hugging Face's encode() puts
  // it before every text.
  std::optional<int32_t> bos() const { return facts_.bos >= 0 ? std::optional(facts_.bos) : std::nullopt; }
  bool adds_bos() const { return facts_.adds_bos; }
  // What it puts behind every text, if anything; need not be eot().
  std::optional<int32_t> added_end() const {
    return facts_.added_end >= 0 ? std::optional(facts_.added_end) : std::nullopt;
  }

  // Where a text stands that follows a special token, or a picture in its place, as Hugging Face's tokenizer
  // of the same files takes it.
  TextPlace after_special() const { return facts_.after_special; }

  // Equal for tokenizers that give the same ids, on any machine: for keys of caches.
  uint64_t fingerprint() const { return facts_.fingerprint; }

  // The files that it was read from, and what lay beside them.
  const Files& files() const { return files_; }
  // This tokenizer with more files, those of the model that it belongs to, in place of any of the same names.
  virtual TokenizerPtr with(const Files& more) const = 0;

  // Writes files that Hugging Face's tokenizers load into an existing folder, its own as they are; waits
  // until they are on the disk.
  virtual void save(const std::string& folder) const = 0;

  // The whole tokenizer, for checkpoints.
  virtual std::string state() const = 0;

 protected:
  // What those functions say, which a constructor fills in; ids: -1: none.
  struct Facts {
    int32_t vocab_size = 0, eot = -1, bos = -1, added_end = -1;
    bool adds_bos = false;
    TextPlace after_special = TextPlace::kWithin;
    uint64_t fingerprint = 0;
    std::string no_eot = {};  // what eot() throws without one
  };

  explicit Tokenizer(Files files = {}) : files_(std::move(files)) {}
  Tokenizer(const Tokenizer&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

  template <class Kind>
  static TokenizerPtr with(const Kind& tokenizer, const Files& more) {
    auto copy = std::make_shared<Kind>(tokenizer);
    for (const auto& [name, text] : more) copy->files_[name] = text;
    return copy;
  }

  // Throws TokenizerError for what is no token.
  void check_id(int32_t id) const;

  Facts facts_;

 private:
  Files files_;
};

// Reads a folder or one of its files: a SentencePiece tokenizer.model, else byte-level BPE as
// ByteLevelBpe::load() reads it. Throws TokenizerError with the file and the line or entry that is wrong. The
// tokenizer that was read last is kept, as a run asks for it several times and 256,000 tokens take seconds:
// where the files have the same content again, it is that one. Safe for concurrent use.
TokenizerPtr load_tokenizer(const std::string& path);

// A saved tokenizer.json of byte-level BPE that puts nothing behind a text puts this token there from now on.
void end_texts_with(const std::string& folder, const std::string& token, int32_t id);

// Whether a folder has a file that load_tokenizer() reads tokens from.
bool has_tokenizer(const std::filesystem::path& folder);

// The tokenizer of a state(). Throws TokenizerError for any other text; `name` stands for it then.
TokenizerPtr tokenizer_of_state(std::string_view state, const std::string& name);

}  // namespace pipeline::tokenizer
