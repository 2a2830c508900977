#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/pair_table.hpp"
#include "tokenizer/vocabulary.hpp"

namespace pipeline::text {

// Byte-pair encoding of one piece of text: its bytes become tokens, then the pair with the best merge, the
// leftmost of equals, becomes one token, until no pair has a merge. Const and safe for any thread.
class BpeModel {
 public:
  explicit BpeModel(const Vocabulary& vocabulary);

  // Adds the tokens of a non-empty piece. Time grows with n log n.
  void encode_append(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  void encode_short(std::string_view piece, std::vector<int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<int32_t>& ids) const;

  PairTable pairs_;
  std::array<int32_t, 256> byte_ids_;
};

}  // namespace pipeline::text
