// A file of records, to be appended to. Little-endian, everything at multiples of 8 bytes:
//
//   FileHeader
//   records     each a RecordHeader and its payload, padded with zeros; of two with one key the later counts
//
// A record says by itself where it ends and whether it is whole. So one that is cut off or damaged is
// noticed, those after it are found, and a reader walks from header to header without reading the payloads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/tasks/common/files/hash128.hpp"

namespace pipeline::records {

using files::Hash128;

constexpr size_t kAlignment = 8;

constexpr uint64_t padded(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// What a file of records is for. A file of another name or version is never misread: it is made again.
struct Kind {
  std::string_view name;  // in the file; 8 characters
  uint32_t version;       // raised whenever the same key would give other bytes
  // For messages: what happens to records that are lost ("the files are parsed again").
  std::string_view remedy;
};

struct FileHeader {
  char magic[8];
  char name[8];
  uint32_t version, reserved;
  uint64_t hash;  // the low half of the hash of what is before

  explicit FileHeader(const Kind& kind);
};

struct RecordHeader {
  uint64_t magic;
  Hash128 key;
  uint64_t bytes;  // of the payload, without padding
  Hash128 hash;    // of payload and padding
  uint64_t header_hash;

  RecordHeader() = default;
  RecordHeader(const Hash128& for_key, uint64_t payload_bytes, const Hash128& payload_hash);
  bool is_right() const;
};

// A whole record, ready to be appended. [any-thread]
std::string make_record(const Hash128& key, std::string_view payload);

static_assert(sizeof(FileHeader) == 32 && sizeof(RecordHeader) == 56);
static_assert(std::endian::native == std::endian::little);

}  // namespace pipeline::records
