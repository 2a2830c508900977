#include "plugins/tasks/summarization/data/token_cache.hpp"

#include <cstddef>
#include <cstring>

#include "plugins/tasks/summarization/data/files.hpp"

namespace pipeline::summarization {

TokenCache::TokenCache(const std::string& path, const Hash128& key, Verify verify)
    : path_(path), file_(files::MappedFile::whole(path, "the token cache must be built first")) {
  if (bytes().size() < sizeof header_) throw DataError(path + ": too short for a token cache: build it again");
  std::memcpy(&header_, bytes().data(), sizeof header_);
  check(key, verify);
  report_ = PairReport::from_json(std::string(bytes().substr(header_.report_begin)));
}

// Nothing that sample() relies on is taken on trust, so that a damaged file cannot lead it out of the
// mapping.
void TokenCache::check(const Hash128& key, Verify verify) {
  const auto refuse = [&](const std::string& problem) {
    throw DataError(path_ + ": " + problem + ": build it again");
  };
  const CacheHeader& h = header_;
  if (std::memcmp(h.magic, kCacheMagic, sizeof kCacheMagic) != 0) refuse("not a token cache");
  if (h.version != kCacheVersion) {
    refuse("a token cache of version " + std::to_string(h.version) + ", not " +
           std::to_string(kCacheVersion));
  }
  if (hash128(bytes().substr(0, offsetof(CacheHeader, header_hash))) != h.header_hash)
    refuse("its header is damaged");
  if (h.key != key) refuse("made from other data, another tokenizer or other options");
  if (h.file_bytes != bytes().size()) {
    refuse("it has " + std::to_string(bytes().size()) + " bytes instead of " + std::to_string(h.file_bytes));
  }
  const uint64_t most = bytes().size();  // of anything, and small enough for the sums below
  const bool in_order = (h.token_bytes == 2 || h.token_bytes == 4) && h.tokens <= most && h.samples < most &&
                        sizeof h + h.tokens * h.token_bytes <= h.index_begin &&
                        h.index_begin % alignof(CacheEntry) == 0 && h.index_begin <= most &&
                        h.ids_begin == h.index_begin + (h.samples + 1) * sizeof(CacheEntry) &&
                        h.ids_begin <= h.report_begin && h.report_begin <= most;
  if (!in_order) refuse("its sections do not fit together");
  if (hash128(bytes().substr(h.index_begin)) != h.tables_hash) refuse("its tables are damaged");
  const uint64_t ids_bytes = h.report_begin - h.ids_begin;
  for (uint64_t i = 0; i < h.samples; ++i) {
    const CacheEntry &e = entry(i), &next = entry(i + 1);
    if (e.tokens_begin + e.document_tokens + e.summary_tokens != next.tokens_begin ||
        next.tokens_begin > h.tokens || e.id_begin > next.id_begin || next.id_begin > ids_bytes) {
      refuse("its entry " + std::to_string(i) + " is out of order");
    }
    if (e.summary_tokens > 0) ++summaries_;
  }
  if (verify == Verify::kAll && hash128(bytes().substr(sizeof h, h.index_begin - sizeof h)) != h.tokens_hash) {
    refuse("its tokens are damaged");
  }
}

const CacheEntry& TokenCache::entry(uint64_t i) const {
  return reinterpret_cast<const CacheEntry*>(bytes().data() + header_.index_begin)[i];
}

TokenSample TokenCache::sample(uint64_t i) const {
  const CacheEntry& e = entry(i);
  const char* document = bytes().data() + sizeof(CacheHeader) + e.tokens_begin * header_.token_bytes;
  const char* summary = document + uint64_t{e.document_tokens} * header_.token_bytes;
  return {TokenView(document, e.document_tokens, header_.token_bytes),
          TokenView(summary, e.summary_tokens, header_.token_bytes),
          bytes().substr(header_.ids_begin + e.id_begin, entry(i + 1).id_begin - e.id_begin), e.line};
}

Hash128 TokenCache::fingerprint() const {
  const auto bytes = [](const Hash128& hash) {
    return std::string_view(reinterpret_cast<const char*>(&hash), sizeof hash);
  };
  return Hasher128().update(bytes(header_.tokens_hash)).update(bytes(header_.tables_hash)).finish();
}

}  // namespace pipeline::summarization
