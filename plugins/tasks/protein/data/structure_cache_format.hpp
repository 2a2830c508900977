#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "plugins/tasks/common/files/hash128.hpp"

namespace pipeline::protein {

// The file that keeps what was parsed, to be appended to. Little-endian, everything at multiples of 8 bytes:
//
//   CacheFileHeader
//   records        each a RecordHeader, its payload and a remark, padded with zeros; of two with one key the later one counts
//
// The payload of a structure, which its chains' residues are used from where they lie:
//
//   ChainEntry[chains]
//   names          of the chains, one after the other, padded with zeros
//   Residue[]      of the chains, one after the other
//
// The payload of a failure is the reason, as text. A record says by itself that it is whole, so one that is cut off or damaged is
// noticed and those after it are found. A change of any of this, Residue included, raises kCacheVersion.
constexpr char kCacheMagic[8] = {'P', 'L', 'P', 'R', 'O', 'T', 'S', '\n'};
constexpr uint64_t kRecordMagic = 0x5245434f5244ab02;
constexpr uint32_t kCacheVersion = 2;
constexpr size_t kAlignment = 8;

struct CacheFileHeader {
  char magic[8];
  uint32_t version;
  uint32_t parser_version;
  files::Hash128 id;    // random: what else is written about this file holds for no other (structure_directory.hpp)
  files::Hash128 hash;  // of what is before
};

enum class RecordKind : uint32_t { kStructure = 1, kFailure = 2 };

struct RecordHeader {
  uint64_t magic;
  files::Hash128 key;  // of the content of the file that was parsed
  uint32_t kind;       // RecordKind
  uint32_t chains;
  uint64_t payload_bytes;
  files::Hash128 payload_hash;
  uint64_t remark_bytes;  // without the padding after it
  uint64_t remark_hash;   // the low half
  uint64_t header_hash;   // the low half of the hash of what is before
};

struct ChainEntry {
  uint32_t name_bytes, residues;
};

constexpr uint64_t padded(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

static_assert(sizeof(CacheFileHeader) == 48 && sizeof(RecordHeader) == 80 && sizeof(ChainEntry) == 8);
static_assert(std::endian::native == std::endian::little);

}  // namespace pipeline::protein
