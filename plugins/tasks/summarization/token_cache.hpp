#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/files/part.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/records/record_report.hpp"
#include "plugins/data/sources/source_files.hpp"
#include "plugins/data/stores/sample_store.hpp"

namespace pipeline::tasks::summarization {

using files::Cancelled;
using files::DataError;
using files::Hash128;
using records::Columns;
using records::Pair;
using records::ReadOptions;
using records::SourceReport;

// Tokens as the cache has them, two or four bytes each. Valid as long as their sample.
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
  std::optional<stores::Sample> bytes;  // where the others lie
  TokenView document, summary;
  std::string_view id;
};

// The file of a token cache is one of samples: each a TokenHead, the tokens of document and summary, one
// after the other, and the id, UTF-8. The summary is a TokenTotals, and behind it the report of the reading
// that filled it, as JSON. A change of any of this raises the version, which is part of every cache's key.
constexpr stores::SampleKind kTokens{.name = "PLTOKENS", .version = 7};

struct TokenHead {
  uint32_t document_tokens, summary_tokens, token_bytes, reserved;
};
struct TokenTotals {
  uint64_t summaries, tokens;
};
static_assert(sizeof(TokenHead) == 16 && sizeof(TokenTotals) == 16);

// The tokens of a source of pairs. Memory does not grow with them. Immutable; safe for concurrent use.
class TokenCache {
 public:
  explicit TokenCache(stores::SampleStore store);  // throws DataError

  uint64_t size() const { return store_.size(); }           // pairs
  uint64_t summaries() const { return totals_.summaries; }  // pairs that have one
  uint64_t tokens() const { return totals_.tokens; }        // in all of them
  // i < size(). DataError if the file is damaged, or was changed meanwhile.
  TokenSample sample(uint64_t i) const;
  const SourceReport& report() const { return report_; }  // of the reading that filled it
  const std::string& path() const { return store_.path(); }

  // Equal where every id and token is: what ranks and checkpoints compare.
  std::string fingerprint() const { return store_.content().hex(); }

 private:
  [[noreturn]] void refuse() const;

  stores::SampleStore store_;
  TokenTotals totals_{};
  SourceReport report_;
};

// All that decides what is in a cache.
struct TokenCacheSource {
  sources::SourceFiles files;  // the pairs
  Columns columns;
  uint64_t max_record_bytes = ReadOptions{}.max_record_bytes;
  records::Quotes quotes = records::Quotes::kAuto;
  files::Part part;       // of the file's records, by their documents
  std::string tokenizer;  // a fingerprint: another text for tokenizers that give other tokens
  uint32_t vocabulary_size = 0;
};

// Progress is of the files' bytes.
struct TokenCacheHooks : files::Hooks {
  // Required. Called from `threads` threads at a time.
  std::function<std::vector<int32_t>(std::string_view)> encode;
};

// From the files' content, the tokenizer's fingerprint, the options and the version of the format.
Hash128 token_cache_key(const TokenCacheSource& source);

// Where the cache of this key is or will be: <folder>/<name of the source>-<key>.tokens.
std::string token_cache_path(const std::string& folder, const TokenCacheSource& source, const Hash128& key);

// Opens the cache; builds it first if it is missing or not whole. Of several processes that ask at once one
// builds and the others wait. The cache appears under its name only when it is complete and on the disk; then
// those that nothing has used for long are removed. Memory stays bounded by the batches of texts at hand (a
// few MiB each, or one record). Throws DataError, or Cancelled.
TokenCache open_or_build_token_cache(const std::string& folder, const TokenCacheSource& source,
                                     const TokenCacheHooks& hooks);

}  // namespace pipeline::tasks::summarization
