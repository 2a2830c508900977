// What templates call by name, as jinja2/filters.py, jinja2/tests.py and Python have it.
#pragma once

#include "plugins/models/chat/value.hpp"

namespace pipeline::chat {

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
