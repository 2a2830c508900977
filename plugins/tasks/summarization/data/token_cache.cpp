#include "plugins/tasks/summarization/data/token_cache.hpp"

#include <algorithm>

#include "plugins/data/files/hash128.hpp"

namespace pipeline::summarization {

using files::take;

TokenCache::TokenCache(const std::string& path, const Hash128& key) : store_(path, kTokens) {
  if (!store_.is_there()) throw DataError(path + ": not there: the token cache must be built first");
  if (!store_.problem().empty()) throw DataError(store_.problem());
  const records::Record* list = store_.find(key);
  if (list == nullptr) refuse("incomplete, or made with other data, another tokenizer or other options");
  read_list(*list);
}

void TokenCache::refuse(const std::string& problem) const {
  throw DataError(path() + ": " + problem + ": " + std::string(kTokens.remedy));
}

void TokenCache::read_list(const records::Record& record) {
  if (!store_.is_whole(record)) refuse("its list of blocks is damaged");
  std::string_view bytes = store_.payload(record);
  const std::string_view all = bytes;
  Hash128 key;
  bool whole = take(bytes, list_);
  for (uint64_t i = 0; whole && i < list_.blocks; ++i) {
    whole = take(bytes, key);
    const records::Record* block = whole ? store_.find(key) : nullptr;
    if (block == nullptr || !store_.is_whole(*block))
      refuse("its block " + std::to_string(i) + " is damaged");
    add_block(*block);
  }
  uint64_t samples = 0;
  for (const Block& block : blocks_) samples += block.is.samples;
  if (!whole || samples != list_.samples) refuse("its list of blocks does not fit them");
  fingerprint_ = files::hash128(all.substr(0, all.size() - bytes.size()));
  report_ = PairReport::from_json(std::string(bytes));
}

// Nothing that sample() relies on is taken on trust, so that a damaged file cannot lead it out of the
// mapping.
void TokenCache::add_block(const records::Record& record) {
  std::string_view bytes = store_.payload(record);
  const uint64_t most = bytes.size();  // of anything, and small enough for the sums below
  Block block{};
  block.first = blocks_.empty() ? 0 : blocks_.back().first + blocks_.back().is.samples;
  const TokenBlock& is = block.is;
  if (!take(bytes, block.is) || (is.token_bytes != 2 && is.token_bytes != 4) || is.tokens > most ||
      (uint64_t{is.samples} + 1) * sizeof(TokenEntry) + is.tokens * is.token_bytes > bytes.size())
    refuse("the sections of a block do not fit together");
  block.entries = reinterpret_cast<const TokenEntry*>(bytes.data());
  block.tokens = bytes.data() + (uint64_t{is.samples} + 1) * sizeof(TokenEntry);
  block.ids = block.tokens + is.tokens * is.token_bytes;
  const auto ids_bytes = static_cast<uint64_t>(bytes.data() + bytes.size() - block.ids);
  for (uint32_t i = 0; i < is.samples; ++i) {
    const TokenEntry &e = block.entries[i], &next = block.entries[i + 1];
    if (e.tokens_begin > is.tokens ||
        e.tokens_begin + e.document_tokens + e.summary_tokens != next.tokens_begin ||
        next.tokens_begin > is.tokens || e.id_begin > next.id_begin || next.id_begin > ids_bytes)
      refuse("entry " + std::to_string(block.first + i) + " is out of order");
  }
  blocks_.push_back(block);
}

TokenSample TokenCache::sample(uint64_t i) const {
  store_.check_length();
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), i,
                       [](uint64_t sample, const Block& block) { return sample < block.first; });
  const Block& block = *(after - 1);
  const TokenEntry &e = block.entries[i - block.first], &next = block.entries[i - block.first + 1];
  const uint32_t token_bytes = block.is.token_bytes;
  const char* document = block.tokens + e.tokens_begin * token_bytes;
  const char* summary = document + uint64_t{e.document_tokens} * token_bytes;
  return {TokenView(document, e.document_tokens, token_bytes),
          TokenView(summary, e.summary_tokens, token_bytes),
          {block.ids + e.id_begin, next.id_begin - e.id_begin},
          e.line};
}

}  // namespace pipeline::summarization
