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
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/hash128.hpp"
#include "stores/alignment.hpp"

namespace pipeline {
class Descriptor;
}

namespace pipeline::stores {

using files::Hash128;

constexpr uint64_t kSamplesAnIndex = 4096;

// What a file of samples is for. A file of another name or version is never misread: it is made again.
struct SampleKind {
  std::string_view name;  // in the file; 8 characters
  uint32_t version;       // raised whenever the same key would give other bytes
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

Hash128 hash_of_parts(std::string_view directory_and_summary, const Footer& footer);
uint64_t hash_of_sample(uint64_t number, std::string_view payload);

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

}  // namespace pipeline::stores
