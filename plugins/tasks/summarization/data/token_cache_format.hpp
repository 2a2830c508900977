#pragma once

#include <bit>
#include <cstdint>

#include "plugins/tasks/summarization/data/files.hpp"


namespace pipeline::summarization {

// The file of a token cache. Little-endian, sections in this order and without gaps but for padding to 8
// bytes before the index:
//
//   CacheHeader          128 bytes
//   tokens               samples' document and summary tokens, one after the other; token_bytes (2 or 4) each
//   CacheEntry[samples+1]  the last one only ends the one before it
//   ids                  UTF-8, one after the other
//   report               PairReport as JSON: what was dropped when the file was read
//
// A change of any of this raises kCacheVersion, which is part of every cache's key.
struct CacheHeader {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  Hash128 key;  // of the text, the tokenizer and all options: see token_cache_key()
  uint64_t samples;
  uint64_t tokens;
  uint64_t index_begin, ids_begin, report_begin, file_bytes;  // in bytes from the start of the file
  Hash128 tokens_hash;                                        // of tokens and padding
  Hash128 tables_hash;                                        // of index, ids and report
  Hash128 header_hash;                                        // of the header up to here
};

struct CacheEntry {
  uint64_t tokens_begin;  // counted in tokens
  uint32_t document_tokens, summary_tokens;
  uint64_t id_begin;  // in bytes from the start of ids
  uint64_t line;      // of the record in its file
};

constexpr char kCacheMagic[8] = {'P', 'L', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr uint32_t kCacheVersion = 2;

static_assert(sizeof(CacheHeader) == 128 && sizeof(CacheEntry) == 32);
static_assert(std::endian::native == std::endian::little);

}  // namespace pipeline::summarization
