// Templates as functions of what they are rendered with.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/models/chat/template.hpp"
#include "plugins/models/chat/value.hpp"

namespace pipeline::chat {

// Where a rendering stands, and the variables there.
struct Frame {
  const Value* find(std::string_view name) const {
    const Value* found = find_in(rendering, variables, name);
    return found != nullptr || outer == nullptr ? found : outer->find(name);
  }
  // An inner frame, whose variables end with it.
  Frame inner(Members own = {}) const { return {rendering, out, rendered, this, std::move(own)}; }

  Rendering& rendering;
  std::string& out;
  Rendered* rendered;  // nullptr: `out` is not its text
  const Frame* outer = nullptr;
  Members variables = {};
};

enum class Flow : uint8_t { kNext, kBreak, kContinue };
using Statement = std::function<Flow(Frame&)>;

// Throws Problem with its line; so does what it returns.
Statement compile(std::string_view source);

}  // namespace pipeline::chat
