// The tokens of a Jinja template, as transformers sets its environment up: trim_blocks, lstrip_blocks.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::chat {

struct Token {
  enum Kind : uint8_t {
    kText,
    kBlock,
    kBlockEnd,
    kOutput,
    kOutputEnd,
    kName,
    kInteger,
    kFloat,
    kString,
    kOperator,
    kEnd
  };
  Kind kind;
  std::string text;  // of a string: its value
  int line;
};

// Throws LineProblem.
std::vector<Token> tokens_of(std::string_view source);

// A Problem with its line.
struct LineProblem : std::runtime_error {
  LineProblem(int at, const std::string& what) : std::runtime_error(what), line(at) {}
  int line;
};

}  // namespace pipeline::chat
