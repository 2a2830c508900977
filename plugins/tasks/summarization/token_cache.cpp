#include "plugins/tasks/summarization/token_cache.hpp"

#include <utility>

namespace pipeline::tasks::summarization {

using files::take;

TokenCache::TokenCache(stores::SampleStore store) : store_(std::move(store)) {
  std::string_view summary = store_.summary();
  if (!take(summary, totals_)) refuse();
  report_ = SourceReport::from_json(std::string(summary));
}

void TokenCache::refuse() const {
  throw DataError(path() + ": what is in it does not fit together: remove it, and it is built again");
}

// Nothing is taken on trust, so that a damaged file cannot lead out of the sample.
TokenSample TokenCache::sample(uint64_t i) const {
  stores::Sample sample = store_[i];
  std::string_view bytes = sample.payload();
  TokenHead head;
  if (!take(bytes, head) || (head.token_bytes != 2 && head.token_bytes != 4)) refuse();
  const uint64_t document_bytes = uint64_t{head.document_tokens} * head.token_bytes,
                 all_bytes = document_bytes + uint64_t{head.summary_tokens} * head.token_bytes;
  if (all_bytes > bytes.size()) refuse();
  return {.bytes = std::move(sample),
          .document = TokenView(bytes.data(), head.document_tokens, head.token_bytes),
          .summary = TokenView(bytes.data() + document_bytes, head.summary_tokens, head.token_bytes),
          .id = bytes.substr(all_bytes)};
}

}  // namespace pipeline::tasks::summarization
