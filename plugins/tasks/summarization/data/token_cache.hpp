#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/files/part.hpp"
#include "plugins/data/record_store/record_store.hpp"
#include "plugins/data/text_pairs/input.hpp"
#include "plugins/data/text_pairs/pair_report.hpp"
#include "plugins/data/text_pairs/pairs.hpp"

namespace pipeline::summarization {

using files::Hash128;
using text_pairs::Cancelled;
using text_pairs::Columns;
using text_pairs::DataError;
using text_pairs::Pair;
using text_pairs::PairReport;
using text_pairs::ReadOptions;
using text_pairs::SourceFile;

// Tokens in the mapped file, two or four bytes each. Valid as long as the cache.
class TokenView {
 public:
  TokenView(const void* data, uint32_t size, uint32_t token_bytes)
      : data_(data), size_(size), token_bytes_(token_bytes) {}

  uint32_t size() const { return size_; }
  int32_t operator[](uint32_t i) const {
    return token_bytes_ == 2 ? static_cast<const uint16_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }
  // Writes `count` tokens from `begin` on.
  template <class Integer>
  void copy(Integer* out, uint32_t begin, uint32_t count) const {
    for (uint32_t i = 0; i < count; ++i) out[i] = static_cast<Integer>((*this)[begin + i]);
  }

 private:
  const void* data_;
  uint32_t size_, token_bytes_;
};

struct TokenSample {
  TokenView document, summary;
  std::string_view id;
  uint64_t line;
};

// The file of a token cache: a file of records, of two sorts. A block has some samples, under the hash of its
// payload:
//
//   TokenBlock
//   TokenEntry[samples+1]  the last one only ends the one before it
//   tokens                 samples' document and summary tokens, one after the other; token_bytes (2 or 4)
//   each ids                    UTF-8, one after the other
//
// The list has the blocks in order, and is written last, under the key of the cache:
//
//   TokenList
//   Hash128[blocks]        their keys
//   report                 PairReport as JSON: what was dropped when the file was read
//
// A change of any of this raises the version, which is part of every cache's key.
constexpr records::Kind kTokens{.name = "PLTOKENS", .version = 4, .remedy = "build it again"};

struct TokenBlock {
  uint32_t samples, token_bytes;
  uint64_t tokens;
};
struct TokenEntry {
  uint64_t tokens_begin;  // counted in tokens
  uint32_t document_tokens, summary_tokens;
  uint64_t id_begin;  // in bytes from the start of ids
  uint64_t line;      // of the record in its file
};
struct TokenList {
  uint64_t blocks, samples, summaries, tokens;
};
static_assert(sizeof(TokenBlock) == 16 && sizeof(TokenEntry) == 32 && sizeof(TokenList) == 32);

// The tokens of a file of pairs, memory-mapped: opening costs no memory and processes share the pages.
// Immutable; safe for concurrent use.
class TokenCache {
 public:
  // Reads and verifies all of it. Throws DataError, with the reason, for a file that is not there, not a
  // cache, cut off, damaged, or of another key.
  TokenCache(const std::string& path, const Hash128& key);

  uint64_t size() const { return list_.samples; }         // pairs
  uint64_t summaries() const { return list_.summaries; }  // pairs that have one
  uint64_t tokens() const { return list_.tokens; }        // in all of them
  TokenSample sample(uint64_t i) const;                 // i < size(). DataError if the file was cut meanwhile
  const PairReport& report() const { return report_; }  // of the reading that filled it
  const std::string& path() const { return store_.path(); }

  // Equal where every id and token is: what ranks and checkpoints compare.
  const Hash128& fingerprint() const { return fingerprint_; }

 private:
  struct Block {
    uint64_t first;  // of its samples
    TokenBlock is;
    const TokenEntry* entries;
    const char *tokens, *ids;
  };
  [[noreturn]] void refuse(const std::string& problem) const;
  void read_list(const records::Record& record);
  void add_block(const records::Record& record);

  records::RecordStore store_;
  TokenList list_{};
  std::vector<Block> blocks_;
  PairReport report_;
  Hash128 fingerprint_;
};

// All that decides what is in a cache.
struct TokenCacheSource {
  SourceFile file;  // the pairs
  Columns columns;
  uint64_t max_record_bytes = ReadOptions{}.max_record_bytes;
  text_pairs::Quotes quotes = text_pairs::Quotes::kAuto;
  files::Part part;       // of the file's records, by their documents
  std::string tokenizer;  // a fingerprint: another text for tokenizers that give other tokens
  uint32_t vocabulary_size = 0;
};

// Progress is of the file's bytes.
struct TokenCacheHooks : files::Hooks {
  // Required. Called from `threads` threads at a time.
  std::function<std::vector<int32_t>(std::string_view)> encode;
};

// From the file's content, the tokenizer's fingerprint, the options and the version of the format.
Hash128 token_cache_key(const TokenCacheSource& source);

// Where the cache of this key is or will be: <folder>/<name of the file>-<key>.tokens.
std::string token_cache_path(const std::string& folder, const TokenCacheSource& source, const Hash128& key);

// Opens the cache, wholly verified; builds it first if it is missing or damaged. Of several processes that
// ask at once one builds and the others wait. The cache appears under its name only when it is complete and
// on the disk; then those that nothing has used for long are removed. Memory stays bounded by the batch of
// texts at hand (a few MiB, or one record). Throws DataError, or Cancelled.
TokenCache open_or_build_token_cache(const std::string& folder, const TokenCacheSource& source,
                                     const TokenCacheHooks& hooks);

}  // namespace pipeline::summarization
