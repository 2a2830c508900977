// Values of a chat template: those of Python that it can have.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace pipeline::chat {

class Value;

// Of lists, dicts and functions in each other. The same item counts as often as it is reached: so much must
// be gone through to write or compare all.
struct Extent {
  size_t depth = 0, weight = 1;
  bool holds_namespace = false;
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;  // which is printed otherwise
  Extent extent = {};
};

// Keys in the order in which they came.
struct Dict {
  std::vector<std::pair<std::string, Value>> items;
  bool is_namespace = false;  // whose attributes can be set
  Extent extent = {};

  const Value* find(std::string_view key) const;
  void set(std::string key, Value value);
};

struct Arguments {
  std::vector<Value> positional;
  Dict named;

  // Argument number `index`, or by name; nullptr: neither.
  const Value* find(size_t index, std::string_view name) const;
};

using Function = std::function<Value(const Arguments& arguments)>;

struct Callable {
  Function function;
  Extent extent;
};

struct Undefined {
  std::string name;  // for messages
};

// What is wrong with a template or what it is given; Template adds the line.
class Problem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Lists and dictionaries are shared, and do not change, but for a namespace's attributes.
class Value {
 public:
  Value() = default;  // undefined
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string value) : data_(std::move(value)) {}
  Value(const char* value) : data_(std::string(value)) {}
  // Throw Problem where too much is nested in it.
  Value(List value);
  Value(Dict value);
  // `of`: what the function holds.
  Value(Function value, const Value* of = nullptr);
  static Value of(const nlohmann::ordered_json& json);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<std::nullptr_t>() != nullptr; }
  const std::string* string() const { return get<std::string>(); }
  const List* list() const { return pointee<const List>(); }
  Dict* dict() const { return pointee<Dict>(); }
  const Function* function() const {
    const auto* callable = pointee<const Callable>();
    return callable == nullptr ? nullptr : &callable->function;
  }
  bool is_namespace() const { return dict() != nullptr && dict()->is_namespace; }
  Extent extent() const;
  size_t weight() const { return extent().weight; }
  bool holds_namespace() const { return extent().holds_namespace; }  // itself, or within
  // True and False are 1 and 0, as in Python.
  bool is_integer() const { return get<bool>() != nullptr || get<int64_t>() != nullptr; }
  bool is_number() const { return is_integer() || get<double>() != nullptr; }
  int64_t integer(const char* what) const;  // throws Problem: `what` must be one
  double number() const;
  const std::string& text_of(const char* what) const;

  const char* type() const;  // Python's name, for messages

 private:
  template <class T>
  T* pointee() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&data_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  std::variant<Undefined, std::nullptr_t, bool, int64_t, double, std::string, std::shared_ptr<const List>,
               std::shared_ptr<Dict>, std::shared_ptr<const Callable>>
      data_;
};

bool truth(const Value& value);
bool equal(const Value& a, const Value& b);
bool contains(const Value& container, const Value& wanted);  // wanted in container
bool less(const Value& a, const Value& b);                   // throws Problem where Python does
std::string text(const Value& value);                        // str()
std::string representation(const Value& value);              // repr()
// json.dumps(value, ensure_ascii=False, indent=indent); below 0: on one line.
std::string json_text(const Value& value, int64_t indent, const std::string& item_separator,
                      const std::string& key_separator, bool sort_keys);
// What a loop goes over: items, keys, characters. Throws Problem for what has none.
std::vector<Value> items_of(const Value& value);
int64_t length(const Value& value);
std::vector<std::string> characters(std::string_view text);

}  // namespace pipeline::chat
