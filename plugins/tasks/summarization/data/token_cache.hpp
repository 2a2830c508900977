#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/tasks/common/files/mapped_file.hpp"
#include "plugins/tasks/summarization/data/files.hpp"
#include "plugins/tasks/summarization/data/pair_report.hpp"
#include "plugins/tasks/summarization/data/token_cache_format.hpp"

namespace pipeline::summarization {

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

// The tokens of a file of pairs, memory-mapped: opening costs no memory and processes share the pages.
// Immutable; safe for concurrent use.
class TokenCache {
 public:
  enum class Verify { kTables, kAll };  // kAll reads the tokens, too

  // Throws DataError, with the reason, for a file that is not there, not a cache, cut off, damaged, or of
  // another key.
  TokenCache(const std::string& path, const Hash128& key, Verify verify);

  uint64_t size() const { return header_.samples; }     // pairs
  uint64_t summaries() const { return summaries_; }     // pairs that have one
  uint64_t tokens() const { return header_.tokens; }    // in all of them
  TokenSample sample(uint64_t i) const;                 // i < size()
  const PairReport& report() const { return report_; }  // of the reading that filled it
  const std::string& path() const { return path_; }

  // Equal where every id and token is: what ranks compare.
  Hash128 fingerprint() const;

 private:
  void check(const Hash128& key, Verify verify);
  const CacheEntry& entry(uint64_t i) const;
  std::string_view bytes() const { return file_.bytes(); }

  std::string path_;
  files::MappedFile file_;
  CacheHeader header_{};
  uint64_t summaries_ = 0;
  PairReport report_;
};

}  // namespace pipeline::summarization
