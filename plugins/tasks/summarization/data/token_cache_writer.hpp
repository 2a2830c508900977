#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/summarization/data/pair_report.hpp"
#include "plugins/tasks/summarization/data/token_cache_format.hpp"

namespace pipeline::summarization {

// A file written from start to end through a buffer, hashed on the way. Errors name the path that was given.
class HashedFile {
 public:
  explicit HashedFile(const std::string& path);
  ~HashedFile();
  HashedFile(const HashedFile&) = delete;
  HashedFile& operator=(const HashedFile&) = delete;

  void write(std::string_view bytes);
  void append_file(HashedFile& other);  // all that was written to it
  void flush();
  void overwrite_start(std::string_view bytes);  // not hashed
  void sync();

  uint64_t size() const { return size_; }
  Hash128 hash() const { return hasher_.finish(); }
  void restart_hash() { hasher_ = {}; }

 private:
  std::string path_, buffer_;
  int fd_;
  uint64_t size_ = 0;
  Hasher128 hasher_;
};

// Writes a token cache sample by sample: tokens go straight to their place, the tables to files beside it
// until their place is known, so that memory stays the same however many samples there are. The files at
// `path` appear at once; give a temporary name.
class TokenCacheWriter {
 public:
  TokenCacheWriter(const std::string& path, const Hash128& key, uint32_t vocabulary_size);

  // Throws DataError for a token that is not below the vocabulary's size.
  void add(std::span<const int32_t> document, std::span<const int32_t> summary, std::string_view id,
           uint64_t line);

  // Completes the file and waits until it is on the disk.
  void finish(const PairReport& report);

 private:
  void write_tokens(std::span<const int32_t> tokens);

  uint32_t vocabulary_size_;
  CacheHeader header_{};
  HashedFile file_, index_, ids_;
  std::vector<uint16_t> narrow_;
};

}  // namespace pipeline::summarization
