#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/tasks/summarization/token_cache.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::tasks::summarization {

using files::FileLock;
using files::hash128;

// One token a byte, moved by `shift` so that tokenizers can differ.
inline std::vector<int32_t> encode_bytes(std::string_view text, int32_t shift = 0) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c) + shift);
  return tokens;
}

inline TokenCacheHooks hooks_of_bytes() {
  TokenCacheHooks hooks;
  hooks.encode = [](std::string_view text) { return encode_bytes(text); };
  return hooks;
}

inline sources::SourceFiles files_at(const std::string& path) {
  return sources::find_and_hash(path, std::filesystem::path(path).parent_path() / "known", {});
}

inline TokenCacheSource source_of(const std::string& path) {
  TokenCacheSource source;
  source.files = files_at(path);
  source.tokenizer = "bytes";
  source.vocabulary_size = 256;
  return source;
}

inline std::string text_of(const TokenView& tokens) {
  std::string text;
  for (uint32_t i = 0; i < tokens.size(); ++i) text += static_cast<char>(tokens[i]);
  return text;
}

inline std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline const std::string kThreePairs =
    "{\"id\":\"a\",\"document\":\"first document\",\"summary\":\"one\"}\n"
    "not json\n"
    "{\"id\":\"ü\",\"document\":\"второй\",\"summary\":\"2\"}\n"
    "{\"id\":\"c\",\"document\":\"third\",\"summary\":\"three\"}\n";

}  // namespace pipeline::tasks::summarization
