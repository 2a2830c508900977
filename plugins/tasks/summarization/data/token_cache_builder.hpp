#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/summarization/data/input.hpp"
#include "plugins/tasks/summarization/data/pairs.hpp"
#include "plugins/tasks/summarization/data/token_cache.hpp"

namespace pipeline::summarization {

// All that decides what is in a cache.
struct TokenCacheSource {
  SourceFile file;  // the pairs
  Columns columns;
  uint64_t max_record_bytes = ReadOptions{}.max_record_bytes;
  std::string tokenizer;  // a fingerprint: another text for tokenizers that give other tokens
  uint32_t vocabulary_size = 0;
};

struct TokenCacheHooks {
  // Required. Called from `threads` threads at a time.
  std::function<std::vector<int32_t>(std::string_view)> encode;
  unsigned threads = 1;

  // All optional, called from the calling thread. progress: of the file's bytes, and pairs so far. note: a
  // line for the log (waiting for another process, building a damaged cache again, what was removed).
  // cancelled: true ends the call with Cancelled.
  std::function<void(uint64_t bytes_done, uint64_t bytes_total, uint64_t pairs)> progress;
  std::function<void(const std::string&)> note;
  std::function<bool()> cancelled;
};

// From the file's content, the tokenizer's fingerprint, the options and the version of the format.
Hash128 token_cache_key(const TokenCacheSource& source);

// Where the cache of this key is or will be: <folder>/<name of the file>-<key>.tokens.
std::string token_cache_path(const std::string& folder, const TokenCacheSource& source, const Hash128& key);

// Opens the cache, wholly verified; builds it first if it is missing or damaged. Of several processes that
// ask at once one builds and the others wait. The cache appears under its name only when it is complete and
// on the disk; then those that nothing has used for long are removed. Memory stays bounded by the batch of
// texts at hand (a few MiB, or one record). Throws DataError, or Cancelled.
TokenCache open_or_build_token_cache(const std::string& folder, const TokenCacheSource& source,
                                     const TokenCacheHooks& hooks);

}  // namespace pipeline::summarization
