// Documents as samples of tokens: blocks, each of pieces of documents that do not see one another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/stores/token_store.hpp"
#include "plugins/tasks/text/data.hpp"

namespace pipeline::tasks::pretraining {

using stores::TokenSample;
using text::Sequence;

// Lays documents end to end and cuts them into blocks of `size` tokens that the model reads, the last one
// perhaps shorter. Each token of a document but its first is a target, once.
class BlockWriter {
 public:
  BlockWriter(int64_t size, uint32_t vocabulary_size, const stores::TokenSink& add)
      : size_(size), vocabulary_size_(vocabulary_size), add_(add) {}

  // tokens: of one document, from what begins it to what ends it; one alone has nothing to be learnt.
  void add(std::string_view name, const std::vector<int32_t>& tokens);
  void finish();

 private:
  int64_t size_;
  uint32_t vocabulary_size_;
  const stores::TokenSink& add_;
  std::string name_;             // of the block: that of its first document, and where that goes on
  std::vector<int32_t> tokens_;  // of the pieces, each with the target of its last token
  std::vector<int64_t> pieces_;  // how many tokens each has
  int64_t filled_ = 0;           // tokens that the model reads
};

std::vector<Sequence> pieces_of(const TokenSample& block);
std::string name_of(const TokenSample& block);  // "book.txt:1@512", from the document's token 512 on

}  // namespace pipeline::tasks::pretraining
