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

// Progress is of the file's bytes.
struct TokenCacheHooks : files::Hooks {
  // Required. Called from `threads` threads at a time.
  std::function<std::vector<int32_t>(std::string_view)> encode;
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
