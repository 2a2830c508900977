// The options of a task's tokenizer, [task.tokenizer].
#pragma once

#include <pipeline/options.hpp>

#include <cstdint>
#include <filesystem>

namespace pipeline::tokenizer {

struct TokenizerOptions {
  std::filesystem::path path;
  int64_t vocab_size = 8192;

  void describe(Options& o) {
    o("path", path,
      "tokenizer.json, tokenizer.model, or a folder with one of them or with vocab.json and merges.txt; "
      "empty: train on the data")
        .follows();
    o("vocab_size", vocab_size, "size of a trained tokenizer").unit("tokens").min(257).max(1 << 20);
  }
  void validate(const ConfigErrors& errors) const;
};

}  // namespace pipeline::tokenizer
