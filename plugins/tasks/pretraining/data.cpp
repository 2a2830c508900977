#include "plugins/tasks/pretraining/data.hpp"

#include <algorithm>
#include <charconv>

#include <pipeline/error.hpp>

namespace pipeline::tasks::pretraining {

void BlockWriter::add(std::string_view name, const std::vector<int32_t>& tokens) {
  const auto targets = static_cast<int64_t>(tokens.size()) - 1;
  for (int64_t begin = 0; begin < targets;) {
    if (filled_ == 0) name_ = std::string(name) + "@" + std::to_string(begin);
    const int64_t count = std::min(targets - begin, size_ - filled_);
    tokens_.insert(tokens_.end(), tokens.begin() + begin, tokens.begin() + begin + count + 1);
    pieces_.push_back(count + 1);
    begin += count;
    filled_ += count;
    if (filled_ == size_) finish();
  }
}

// What is beside the tokens: the name, and in the last line how many each piece has.
void BlockWriter::finish() {
  if (filled_ == 0) return;
  std::string beside = name_ + "\n";
  for (const int64_t count : pieces_) beside += std::to_string(count) + " ";
  add_(stores::pack_tokens({{}, tokens_}, beside, vocabulary_size_));
  tokens_.clear();
  pieces_.clear();
  filled_ = 0;
}

std::vector<Sequence> pieces_of(const TokenSample& block) {
  const stores::TokenView& tokens = block.parts.at(1);
  std::vector<Sequence> pieces;
  std::string_view counts = block.beside.substr(block.beside.rfind('\n') + 1);
  uint32_t at = 0;
  while (!counts.empty()) {
    uint32_t count = 0;
    const char* const end = std::from_chars(counts.data(), counts.data() + counts.size(), count).ptr;
    counts.remove_prefix(std::min(static_cast<size_t>(end - counts.data()) + 1, counts.size()));
    if (count < 2 || count > tokens.size() - at) fail("a block of the cache has pieces that are not in it");
    Sequence piece;
    for (const uint32_t last = at + count - 1; at < last; ++at) {
      piece.tokens.push_back(tokens[at]);
      piece.targets.push_back(tokens[at + 1]);
    }
    ++at;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::string name_of(const TokenSample& block) {
  return std::string(block.beside.substr(0, block.beside.rfind('\n')));
}

}  // namespace pipeline::tasks::pretraining
