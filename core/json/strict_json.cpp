#include "core/json/strict_json.hpp"

#include <cstdint>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace pipeline::strict_json {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

// The library walks what it has parsed by recursion, which a hostile file must not be able to make deep.
constexpr size_t kMaxDepth = 32;

// Builds a value from what the parser finds. The library's own parsers with a callback look through all of an
// object or a list whenever a part of it ends, and through all keys of an ordered object for each new one:
// their time grows with the square of the entries.
template <class Json>
class Builder {
 public:
  Builder(const std::string& context, const char* format) : context_(context), format_(format) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(typename Json::binary_t& value) { return add(Json::binary(std::move(value))); }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& key) {
    if (!is_new(key))
      throw JsonError(context_ + ": key " + excerpt(json(key)) + " stands twice in one object");
    key_ = std::move(key);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    if (dynamic_cast<const json::parse_error*>(&error) == nullptr)  // the only other one
      throw JsonError(context_ + ": has a number that is out of range");
    throw JsonError(context_ + ": not valid " + format_ + " at byte " + std::to_string(position));
  }

  Json take() { return std::move(all_); }

 private:
  // Objects with so few keys are searched key by key, which is faster than to keep a set of them.
  static constexpr size_t kFewKeys = 16;
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;  // of an object with more than kFewKeys
  };

  bool is_new(const std::string& key) {
    auto& [value, keys] = open_.back();
    const auto& object = value->template get_ref<const typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, json>) {
      return !object.contains(key);
    } else {
      if (object.size() < kFewKeys) {
        for (const auto& [known, ignored] : object)
          if (known == key) return false;
        return true;
      }
      if (keys.empty())
        for (const auto& [known, ignored] : object) keys.insert(known);
      return keys.insert(key).second;
    }
  }
  Json& put(Json&& value) {
    if (open_.empty()) return all_ = std::move(value);
    Json& in = *open_.back().value;
    if (in.is_array()) return in.emplace_back(std::move(value));
    auto& object = in.template get_ref<typename Json::object_t&>();
    if constexpr (std::is_same_v<Json, json>) {
      return object.emplace(std::move(key_), std::move(value)).first->second;
    } else {
      auto& entries = static_cast<typename Json::object_t::Container&>(object);
      return entries.emplace_back(std::move(key_), std::move(value)).second;
    }
  }
  template <class Value>
  bool add(Value&& value) {
    check_depth();
    put(Json(std::forward<Value>(value)));
    return true;
  }
  bool open(Json&& value) {
    check_depth();
    open_.push_back({&put(std::move(value)), {}});  // an open value moves no more
    return true;
  }
  bool close() { return open_.pop_back(), true; }
  void check_depth() const {
    if (open_.size() > kMaxDepth)
      throw JsonError(context_ + ": nested deeper than " + std::to_string(kMaxDepth) + " levels");
  }

  const std::string& context_;
  const char* format_;
  Json all_;
  std::vector<Open> open_;  // outermost first
  std::string key_;         // of the value that comes next
};

// Errors are told without the library's words, which have any length and bytes of the text in them.
template <class Json>
Json parse_checked(std::string_view text, const std::string& context) {
  Builder<Json> builder(context, "JSON");
  static_cast<void>(Json::sax_parse(text, &builder));
  return builder.take();
}

}  // namespace

json parse(std::string_view text, const std::string& context) { return parse_checked<json>(text, context); }

ordered_json parse_ordered(std::string_view text, const std::string& context) {
  return parse_checked<ordered_json>(text, context);
}

json parse_cbor(std::string_view bytes, const std::string& context) {
  Builder<json> builder(context, "CBOR");
  static_cast<void>(json::sax_parse(bytes, &builder, json::input_format_t::cbor));
  return builder.take();
}

std::string excerpt(const json& value) {
  constexpr size_t kMaxBytes = 120;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);  // ASCII: may be cut anywhere
  if (text.size() > kMaxBytes) text = text.substr(0, kMaxBytes) + "...";
  return text;
}

}  // namespace pipeline::strict_json
