// Tokens that were made of texts once, as samples of a file in the cache.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/error.hpp"
#include "files/hash128.hpp"
#include "stores/sample_store.hpp"

namespace pipeline::stores {

// Tokens as a sample has them, two or four bytes each. Valid as long as the sample.
class TokenView {
 public:
  TokenView(const void* data, uint32_t size, uint32_t token_bytes)
      : data_(data), size_(size), token_bytes_(token_bytes) {}

  uint32_t size() const { return size_; }
  int32_t operator[](uint32_t i) const {
    return token_bytes_ == 2 ? static_cast<const uint16_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
  }
  // Appends the first `count` tokens.
  template <class Integer>
  void append_to(std::vector<Integer>& out, uint32_t count) const {
    out.reserve(out.size() + count);
    for (uint32_t i = 0; i < count; ++i) out.push_back(static_cast<Integer>((*this)[i]));
  }
  template <class Integer>
  std::vector<Integer> all() const {
    std::vector<Integer> tokens;
    append_to(tokens, size_);
    return tokens;
  }

 private:
  const void* data_;
  uint32_t size_, token_bytes_;
};

// Tokens in parts, whose meaning is the owner's but for one thing: part 1 is what there is to learn. Without
// it, or where it is empty, there is nothing. Beside them are bytes of the owner's.
struct TokenSample {
  std::optional<Sample> bytes;  // where the others lie; empty: they lie elsewhere
  std::vector<TokenView> parts;
  std::string_view beside;

  bool has_target() const { return parts.size() > 1 && parts[1].size() > 0; }
};

// A sample as bytes: its head, the size of each part, the tokens of all, and what is beside them. Throws
// DataError for a token that is not below the vocabulary's size. [any-thread]
std::string pack_tokens(const std::vector<std::vector<int32_t>>& parts, std::string_view beside,
                        uint32_t vocabulary_size);
// `payload` must begin at a multiple of 4 bytes, and outlive the result. Empty: it is none. Nothing is taken
// on trust, so that a damaged file cannot lead out of it.
std::optional<TokenSample> unpack_tokens(std::string_view payload);

// What is known of the files that the samples were made of.
struct TokenReport {
  uint64_t records = 0, used = 0;
  std::string drops, notes;  // lines for the log: what was dropped, and how the files were read
};

// The samples of a source. Memory does not grow with them. Immutable; safe for concurrent use.
class TokenStore {
 public:
  TokenStore() = default;                  // empty
  explicit TokenStore(SampleStore store);  // throws DataError

  uint64_t size() const { return store_.size(); }
  uint64_t targets() const { return targets_; }  // samples that have one
  uint64_t tokens() const { return tokens_; }    // of all samples
  // i < size(). Throws DataError if the file is damaged, or was changed meanwhile.
  TokenSample operator[](uint64_t i) const;
  const TokenReport& report() const { return report_; }
  const std::string& path() const { return store_.path(); }
  // Equal where every sample is: what ranks and checkpoints compare.
  std::string fingerprint() const { return store_.content().hex(); }

 private:
  [[noreturn]] void refuse() const;

  SampleStore store_;
  uint64_t targets_ = 0, tokens_ = 0;
  TokenReport report_;
};

// A change of what is in a sample raises the version. Tokenizers that were trained lie beside such files.
constexpr SampleKind kTokens{
    .name = "PLTOKENS", .version = 8, .ending = "tokens", .others = R"(tokenizer-[0-9a-f]{32}(\.tmp)?|)"};

// Is called with each sample, packed, in order and on one thread.
using TokenSink = std::function<void(std::string&& sample)>;

// Opens the store; fills it first by `read` if it is missing or not whole. Of several processes that ask at
// once one fills it and the others wait. It appears under its name only when it is complete and on the disk;
// then those that nothing has used for long are removed. Throws DataError, or Cancelled.
TokenStore open_or_fill_tokens(const SampleSource& source, const files::Hooks& hooks,
                               const std::function<TokenReport(const TokenSink& add)>& read);

}  // namespace pipeline::stores
