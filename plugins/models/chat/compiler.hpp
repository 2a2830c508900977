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

// The tokens of a Jinja template, as transformers sets its environment up: trim_blocks, lstrip_blocks.
struct Token {
  enum Kind : uint8_t { kText, kSymbol, kName, kDigits, kQuoted, kEnd };
  Kind kind;
  std::string text;  // of a string: its value
  int line;
};

// Throws Problem.
std::vector<Token> tokens_of(std::string_view source);

// The arguments of a call: those by position have no name.
using Arguments = Members;
// The arguments in the order of the parameters; missing ones are undefined. Throws Problem for others.
std::vector<Value> in_order_of(const std::vector<std::string>& parameters, const Arguments& arguments,
                               std::string_view called);

struct Call {
  Rendering& rendering;
  const Value& value;        // what is filtered, or has the method
  std::vector<Value> given;  // one for each parameter
};

// A filter, a method, a function, or several of these where they mean the same.
struct Builtin {
  enum Role { kFilter = 1, kStringMethod = 2, kDictMethod = 4, kFunction = 8 };

  std::string_view name;
  int roles;
  std::vector<std::string> parameters;  // without a name: by position alone
  Value (*run)(const Call& call);

  Value call(Rendering& rendering, const Value& value, const Arguments& arguments) const;
};

using Test = bool (*)(const Value& value);

// nullptr: there is none of this name.
const Builtin* builtin_named(std::string_view name, int role);
Test test_named(std::string_view name);
// The function that a name means which is no variable.
Value function_named(std::string_view name);

// value.name and value[key]; undefined where there is none. They throw Problem.
Value attribute(Rendering& rendering, const Value& value, const std::string& name);
Value item(Rendering& rendering, const Value& value, const Value& key);

}  // namespace pipeline::chat
