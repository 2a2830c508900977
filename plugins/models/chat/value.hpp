// Values of a chat template: those of Python that it can have.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipeline::chat {

// What is wrong with a template or with what it is given.
struct Problem : std::runtime_error {
  explicit Problem(const std::string& what, int at = 0) : std::runtime_error(what), line(at) {}
  int line;  // of the template; 0: not known yet
};

// Throws Problem: what is named is outside of what is read.
template <class... Parts>
[[noreturn]] void unread(fmt::format_string<Parts...> what, Parts&&... parts) {
  throw Problem(fmt::format(what, std::forward<Parts>(parts)...) + " is not read here");
}

// One rendering. What takes time or memory is spent here first.
class Rendering {
 public:
  explicit Rendering(std::time_t at) : time(at) {}
  void spend(size_t steps) {
    spent_ += std::min(steps, kMost);
    if (spent_ > kMost) throw Problem("the template takes too many steps, or writes too much");
  }
  // At worst each byte of one text is compared with each of the other.
  void spend_search(const std::string& text, const std::string& wanted) {
    spend(1 + text.size() * wanted.size() / 256);
  }

  const std::time_t time;
  int depth = 0;  // of macros in each other

 private:
  static constexpr size_t kMost = 2'000'000;
  size_t spent_ = 0;
};

struct Macro;
struct Builtin;
struct Value;
using Members = std::vector<std::pair<std::string, Value>>;  // in a list or tuple the keys are empty

// Strings and members are shared, and do not change, but for a namespace's.
struct Value {
  // A view is what items() and range() give. A generator is what filters give that have not looked at the
  // items yet, which can be had once.
  enum Type {
    kUndefined,
    kNone,
    kBool,
    kInteger,
    kFloat,
    kString,
    kTuple,
    kList,
    kDict,
    kView,
    kGenerator,
    kNamespace,
    kCallable
  };

  Value() = default;
  Value(std::nullptr_t) : type(kNone) {}
  Value(bool value) : type(kBool), integer(value), number(value) {}
  template <std::integral Integer>
  Value(Integer value)
      : type(kInteger), integer(static_cast<int64_t>(value)), number(static_cast<double>(value)) {}
  Value(double value) : type(kFloat), number(value) {}
  Value(std::string_view value) : type(kString), string(std::make_shared<const std::string>(value)) {}
  Value(const std::string& value) : Value(std::string_view(value)) {}
  Value(const char* value) : Value(std::string_view(value)) {}
  // Throws Problem for what is nested too deeply, and for a namespace within another: there are no cycles.
  Value(Type of, Members holds);
  static Value undefined(std::string_view name);
  static Value of(const nlohmann::ordered_json& json, size_t depth = 0);

  bool is_list() const { return type == kList || type == kTuple; }
  bool is_integer() const { return type == kBool || type == kInteger; }
  bool is_given() const { return type != kUndefined || string != nullptr; }  // of an argument
  bool is_number() const { return is_integer() || type == kFloat; }
  // Throw Problem where `what` is something else.
  int64_t integer_of(std::string_view what) const;
  const std::string& string_of(std::string_view what) const;
  const char* name_of_type() const;

  Type type = kUndefined;
  int64_t integer = 0;                        // of True and False: 1 and 0, as in Python
  double number = 0;                          // of every number
  std::shared_ptr<const std::string> string;  // of what is undefined: its name, or nullptr
  bool is_safe = false;                       // of a string: + escapes the other side
  std::shared_ptr<Members> members;
  size_t depth = 0;    // of the members in each other
  size_t message = 0;  // of one of the conversation's: its number, from 1
  const Macro* macro = nullptr;
  const Builtin* builtin = nullptr;  // of a function or method of Python
};

using enum Value::Type;

// A search among many members takes many steps. nullptr: it is not there.
const Value* find_in(Rendering& rendering, const Members& members, std::string_view key);
void set_in(Rendering& rendering, Members& members, std::string_view key, Value value);
bool truth(const Value& value);
bool equal(Rendering& rendering, const Value& a, const Value& b);
bool less(const Value& a, const Value& b);  // throws Problem where Python does
bool contains(Rendering& rendering, const Value& container, const Value& wanted);
std::string text(Rendering& rendering, const Value& value);  // str()
// json.dumps(value); an indent below 0: on one line.
std::string json_text(Rendering& rendering, const Value& value, bool ensure_ascii, int64_t indent);
Value list_of(const std::vector<Value>& items, Value::Type type = kList);
// What a loop goes over: items, keys, characters. Throws Problem for what has none.
std::vector<Value> items_of(Rendering& rendering, const Value& value);

// The whole first character of a text.
std::string_view first_of(std::string_view text);
// The text without the white space of Unicode, or without these characters, at the sides that are asked for.
std::string_view stripped(std::string_view text, bool left, bool right, const std::string* chosen = nullptr);

}  // namespace pipeline::chat
