#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "files/appended_file.hpp"
#include "files/error.hpp"
#include "files/hash128.hpp"
#include "stores/sample_store.hpp"

namespace pipeline::stores {

// Writes a file of samples, which takes the place of what has its name when finish() is called, and goes if
// it never is. One process at a time: the caller holds a lock. Throws DataError.
class SampleWriter {
 public:
  SampleWriter(const std::string& path, const SampleKind& kind);

  uint64_t size() const { return samples_; }  // so far
  void append(std::string_view payload);
  // Returns when all is on the disk. Nothing can follow.
  void finish(const Hash128& key, std::string_view summary);

 private:
  uint64_t end() const { return file_.end() + buffer_.size(); }
  void put(std::string_view bytes);
  void put_index();
  void flush();

  files::AppendedFile file_;
  std::string buffer_;
  std::vector<Place> index_;
  std::vector<uint64_t> directory_;
  uint64_t samples_ = 0;
  files::Hasher128 content_;
};

// Opens a file of samples. Where it is not there, not whole or of another key, `fill` makes it, and returns
// its summary: of several processes that ask at once one does so, and the others wait. `what`, for people:
// "tokenizing train.jsonl". Throws DataError, or Cancelled.
SampleStore open_or_fill(const std::string& path, const SampleKind& kind, const Hash128& key,
                         const std::string& what, const files::Hooks& hooks,
                         const std::function<std::string(SampleWriter& writer)>& fill);

}  // namespace pipeline::stores
