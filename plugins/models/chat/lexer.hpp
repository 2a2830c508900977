// The tokens of a Jinja template, as transformers sets its environment up: trim_blocks, lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipeline::chat {

struct Token {
  enum Kind : uint8_t { kText, kSymbol, kName, kDigits, kQuoted, kEnd };
  Kind kind;
  std::string text;  // of a string: its value
  int line;
};

// Throws Problem.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace pipeline::chat
