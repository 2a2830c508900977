#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace pipeline::text {

// What is wrong with a tokenizer's files, or with ids given to it: the file, the line or entry, what was
// expected.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int code = 0) : std::runtime_error(message), code_(code) {}

  int code() const { return code_; }  // errno, or 0 where the system had no part in it

 private:
  int code_;
};

// Two tokens that may stand side by side become one.
struct Merge {
  int32_t left;
  int32_t right;
  int32_t result;  // its bytes are those of left and right
};

// What a byte-level BPE tokenizer's files hold, checked: every byte has a token of its own, no two tokens are
// the same, merges are distinct pairs of them.
struct Vocabulary {
  std::vector<std::string> tokens;  // bytes by id
  std::vector<Merge> merges;        // the first has precedence
  std::vector<int32_t> special;     // ids of tokens that stand for themselves and no merge makes; rising
};

inline constexpr const char* kEndOfText = "<|endoftext|>";

}  // namespace pipeline::text
