// A file of samples, made once and used in any order. Little-endian, everything at multiples of 8 bytes:
//
//   Header
//   samples       each the hash of its number and its bytes, and the bytes, padded with zeros
//     index       behind every kSamplesAnIndex samples, and behind the last: a Place each
//   directory     where each index begins
//   summary       bytes of the owner's
//   Footer
//
// Opening reads the footer, the directory and the summary. A sample is verified when it is read.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/appended_file.hpp"
#include "files/error.hpp"
#include "files/hash128.hpp"
#include "stores/record_store.hpp"

namespace pipeline {
class Descriptor;
}

namespace pipeline::stores {

constexpr uint64_t kSamplesAnIndex = 4096;

// What a file of samples is for. A file of another name or version is never misread: it is made again.
struct SampleKind {
  std::string_view name;  // in the file; 8 characters
  uint32_t version;       // raised whenever the same key would give other bytes
  // In a cache folder, files of samples have names with this `ending`. `others` is a regular expression, with
  // "|" behind it, for the names of other entries that belong to who makes them.
  std::string_view ending = {}, others = {};
};

struct Header {
  char magic[8] = {'P', 'L', 'S', 'A', 'M', 'P', 'L', '1'};
  char name[8] = {};
  uint64_t version;

  explicit Header(const SampleKind& kind);
};

struct Place {
  uint64_t begin, bytes;  // of a sample's payload
};

struct Footer {
  Hash128 key, content;  // content: of all samples' hashes
  uint64_t samples, directory_begin, summary_begin, summary_bytes;
  Hash128 hash;  // of directory, summary and the fields above
};

static_assert(sizeof(Header) == 24 && sizeof(Place) == 16 && sizeof(Footer) == 80);
static_assert(std::endian::native == std::endian::little);

// A sample as it was read, verified.
class Sample {
 public:
  Sample(Sample&&) noexcept = default;
  Sample& operator=(Sample&&) noexcept = default;

  // The payload, at a multiple of 8 bytes; it stays in place when the sample is moved.
  std::string_view payload() const {
    return std::string_view(bytes_.data(), bytes_.size()).substr(sizeof(uint64_t));
  }

 private:
  friend class SampleStore;
  explicit Sample(uint64_t payload_bytes) : bytes_(sizeof(uint64_t) + payload_bytes) {}
  std::vector<char> bytes_;  // its hash first
};

// The samples of a file. Immutable; safe for concurrent use. Memory does not grow with their number, but for
// 2 bytes a thousand: they are read, not mapped, as a mapped page may count as megabytes. Other processes may
// put another file in its place meanwhile; one that changes what is there is noticed.
class SampleStore {
 public:
  SampleStore() = default;  // holds nothing
  // Throws DataError if what is there cannot be read.
  SampleStore(const std::string& path, const SampleKind& kind, const Hash128& key);

  bool is_whole() const { return is_whole_; }
  // Why what is there is not whole, or of another kind or key; empty where it is, or nothing is there.
  const std::string& problem() const { return problem_; }

  uint64_t size() const { return footer_.samples; }
  // i < size(). Throws DataError where the file is damaged or was changed.
  Sample operator[](uint64_t i) const;
  uint64_t bytes(uint64_t i) const;  // i < size(); not verified
  const std::string& summary() const { return summary_; }
  const Hash128& content() const { return footer_.content; }  // equal where all samples are
  const std::string& path() const { return path_; }

 private:
  std::string find_parts(const SampleKind& kind, const Hash128& key, uint64_t bytes);
  bool read(uint64_t begin, char* into, uint64_t bytes) const;
  Place place(uint64_t i) const;
  [[noreturn]] void fail_changed() const;

  std::string path_, problem_, summary_;
  std::shared_ptr<const Descriptor> file_;
  Footer footer_{};
  std::vector<uint64_t> directory_;
  bool is_whole_ = false;
};

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

// Names a file of samples in a cache folder: <folder>/<name>-<key>.<ending>.
struct SampleSource {
  std::string folder, name;
  Hash128 key;       // of all that decides what is in it
  std::string what;  // for people: "tokenizing train.jsonl"

  std::string path(const SampleKind& kind) const;
};

// Opens the source's file in its cache folder, and fills it first if it is not there. Once a file was made,
// what nothing has used for long is removed: such files, `others`, what processes that were killed left of
// these, and what is known of sources.
SampleStore open_or_fill(const SampleSource& source, const SampleKind& kind, const files::Hooks& hooks,
                         const std::function<std::string(SampleWriter& writer)>& fill);

}  // namespace pipeline::stores
