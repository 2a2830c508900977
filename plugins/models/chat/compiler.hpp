// Templates as functions of what they are rendered with.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/models/chat/lexer.hpp"
#include "plugins/models/chat/scope.hpp"

namespace pipeline::chat {

// Where a rendering stands.
struct Frame {
  Budget& budget;
  Scope& scope;
  std::string& out;
  std::vector<std::pair<size_t, size_t>>* generated;  // nullptr: `out` is not the text itself
};

enum class Flow : uint8_t { kNext, kBreak, kContinue };
using Statement = std::function<Flow(Frame&)>;

// Throws LineProblem; so does what it returns.
Statement compile(std::vector<Token> tokens);

}  // namespace pipeline::chat
