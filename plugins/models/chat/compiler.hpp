// Templates as functions of what they are rendered with.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/models/chat/value.hpp"

namespace pipeline::chat {

// Variables, the innermost first.
struct Scope {
  const Value* find(std::string_view name) const {
    const Value* found = find_in(own, name);
    return found != nullptr || outer == nullptr ? found : outer->find(name);
  }

  const Scope* outer = nullptr;
  Members own = {};
};

// Where a rendering stands.
struct Frame {
  Rendering& rendering;
  Scope& scope;
  std::string& out;
  std::vector<std::pair<size_t, size_t>>* generated;  // nullptr: `out` is not the text itself
};

enum class Flow : uint8_t { kNext, kBreak, kContinue };
using Statement = std::function<Flow(Frame&)>;

// Throws Problem with its line; so does what it returns.
Statement compile(std::string_view source);

}  // namespace pipeline::chat
