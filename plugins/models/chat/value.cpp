#include "plugins/models/chat/value.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/base/utf8.hpp"

namespace pipeline::chat {
namespace {

// As Python writes a float: the shortest that is read back as it is.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// `escape` turns characters that cannot stand there into what stands for them.
template <class Escape>
std::string quoted(std::string_view text, char quote, const Escape& escape) {
  std::string out(1, quote);
  for (const std::string& character : characters(text)) out += escape(character);
  return out + quote;
}

// Of what holds values of these extents.
Extent around(const std::vector<Extent>& extents) {
  constexpr size_t kDeepest = 100, kMost = 500'000;
  Extent all;
  for (const Extent& each : extents) {
    all.depth = std::max(all.depth, each.depth);
    all.weight += each.weight;
    all.holds_namespace |= each.holds_namespace;
    if (all.weight > kMost) throw Problem("lists and dicts hold too much");
  }
  if (++all.depth > kDeepest) throw Problem("lists and dicts are nested too deeply");
  return all;
}

std::string json_string(std::string_view text) {
  return quoted(text, '"', [](const std::string& c) -> std::string {
    constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    if (c.size() > 1) return c;
    if (const size_t i = kPlain.find(c[0]); i != std::string_view::npos) return {'\\', kLetters[i]};
    const auto byte = static_cast<unsigned char>(c[0]);
    return byte < 0x20 ? fmt::format("\\u{:04x}", byte) : c;
  });
}

std::string python_string(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  return quoted(text, quote, [quote](const std::string& c) -> std::string {
    if (c.size() > 1) return c;
    if (c[0] == '\\' || c[0] == quote) return {'\\', c[0]};
    if (c[0] == '\n') return "\\n";
    if (c[0] == '\r') return "\\r";
    if (c[0] == '\t') return "\\t";
    const auto byte = static_cast<unsigned char>(c[0]);
    return byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : c;
  });
}

struct JsonForm {
  int64_t indent;
  const std::string &item_separator, &key_separator;
  bool sort_keys;
};

void write_json(const Value& value, const JsonForm& form, int64_t level, std::string& out) {
  const auto line = [&](int64_t at) {
    if (form.indent >= 0) out += '\n' + std::string(static_cast<size_t>(form.indent * at), ' ');
  };
  const auto members = [&](char open, char close, size_t count, const auto& member) {
    out += open;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out += form.item_separator;
      line(level + 1);
      member(i);
    }
    if (count > 0) line(level);
    out += close;
  };
  if (const List* list = value.list()) {
    members('[', ']', list->items.size(),
            [&](size_t i) { write_json(list->items[i], form, level + 1, out); });
  } else if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    auto items = dict->items;
    if (form.sort_keys)
      std::ranges::stable_sort(items, {}, [](const auto& item) -> const std::string& { return item.first; });
    members('{', '}', items.size(), [&](size_t i) {
      out += json_string(items[i].first) + form.key_separator;
      write_json(items[i].second, form, level + 1, out);
    });
  } else if (const std::string* string = value.string()) {
    out += json_string(*string);
  } else if (const bool* flag = value.get<bool>()) {
    out += *flag ? "true" : "false";
  } else if (value.is_none()) {
    out += "null";
  } else if (const double* number = value.get<double>(); number != nullptr && !std::isfinite(*number)) {
    out += std::isnan(*number) ? "NaN" : *number > 0 ? "Infinity" : "-Infinity";
  } else if (value.is_number()) {
    out += text(value);
  } else {
    throw Problem(fmt::format("tojson of {}", value.type()));
  }
}

}  // namespace

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items)
    if (name == key) return &value;
  return nullptr;
}

void Dict::set(std::string key, Value value) {
  for (auto& [name, old] : items)
    if (name == key) {
      old = std::move(value);
      return;
    }
  items.emplace_back(std::move(key), std::move(value));
}

const Value* Arguments::find(size_t index, std::string_view name) const {
  return index < positional.size() ? &positional[index] : named.find(name);
}

Value Value::of(const nlohmann::ordered_json& json) {
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) throw Problem("a number is too large");
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List list;
    for (const auto& item : json) list.items.push_back(of(item));
    return list;
  }
  Dict dict;
  for (const auto& [key, item] : json.items()) dict.items.emplace_back(key, of(item));
  return dict;
}

Value::Value(List value) {
  std::vector<Extent> extents;
  for (const Value& item : value.items) extents.push_back(item.extent());
  value.extent = around(extents);
  data_ = std::make_shared<const List>(std::move(value));
}

Value::Value(Dict value) {
  std::vector<Extent> extents;
  for (const auto& [key, item] : value.items) {
    extents.push_back(item.extent());
    extents.back().weight += key.size() / 16;
  }
  value.extent = around(extents);
  value.extent.holds_namespace |= value.is_namespace;
  data_ = std::make_shared<Dict>(std::move(value));
}

Value::Value(Function value, const Value* of) {
  const Extent extent = around(of == nullptr ? std::vector<Extent>() : std::vector{of->extent()});
  data_ = std::make_shared<const Callable>(Callable{std::move(value), extent});
}

Extent Value::extent() const {
  if (const std::string* text = string()) return {.depth = 0, .weight = 1 + text->size() / 16};
  if (const auto* callable = pointee<const Callable>()) return callable->extent;
  return list() ? list()->extent : dict() ? dict()->extent : Extent();
}

int64_t Value::integer(const char* what) const {
  if (const bool* flag = get<bool>()) return *flag ? 1 : 0;
  if (const auto* number = get<int64_t>()) return *number;
  throw Problem(fmt::format("{} is {}, must be an int", what, type()));
}

double Value::number() const {
  const auto* wide = get<double>();
  return wide != nullptr ? *wide : static_cast<double>(integer("a number"));
}

const std::string& Value::text_of(const char* what) const {
  if (const std::string* found = string()) return *found;
  throw Problem(fmt::format("{} is {}, must be a str", what, type()));
}

const char* Value::type() const {
  constexpr const char* kNames[] = {"undefined", "None",   "a bool", "an int",    "a float",
                                    "a str",     "a list", "a dict", "a function"};
  return kNames[data_.index()];
}

bool truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.string() || value.list() || value.dict()) return length(value) > 0;
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer("") == b.integer("");
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.string() && b.string()) return *a.string() == *b.string();
  if (a.list() && b.list()) return std::ranges::equal(a.list()->items, b.list()->items, equal);
  if (a.is_namespace() || b.is_namespace()) return a.dict() == b.dict();
  if (a.dict() && b.dict()) {
    if (a.dict()->items.size() != b.dict()->items.size()) return false;
    return std::ranges::all_of(a.dict()->items, [&](const auto& item) {
      const Value* other = b.dict()->find(item.first);
      return other != nullptr && equal(item.second, *other);
    });
  }
  if (a.function() || b.function()) return a.function() == b.function();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool contains(const Value& container, const Value& wanted) {
  if (const std::string* string = container.string())
    return string->find(wanted.text_of("what is looked for in a str")) != std::string::npos;
  if (const Dict* dict = container.dict()) return wanted.string() && dict->find(*wanted.string());
  return std::ranges::any_of(items_of(container), [&](const Value& item) { return equal(item, wanted); });
}

bool less(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer("") < b.integer("");
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.string() && b.string()) return *a.string() < *b.string();  // UTF-8 sorts as its code points do
  if (a.list() && b.list())
    return std::ranges::lexicographical_compare(a.list()->items, b.list()->items, less);
  throw Problem(fmt::format("{} and {} have no order", a.type(), b.type()));
}

std::string text(const Value& value) {
  if (value.is_undefined()) return "";
  return value.string() ? *value.string() : representation(value);
}

std::string representation(const Value& value) {
  if (value.is_none()) return "None";
  if (const bool* flag = value.get<bool>()) return *flag ? "True" : "False";
  if (const auto* number = value.get<int64_t>()) return std::to_string(*number);
  if (const auto* number = value.get<double>()) return float_text(*number);
  if (const std::string* string = value.string()) return python_string(*string);
  std::string out;
  if (const List* list = value.list()) {
    for (const Value& item : list->items) out += (out.empty() ? "" : ", ") + representation(item);
    if (!list->is_tuple) return "[" + out + "]";
    return "(" + out + (list->items.size() == 1 ? ",)" : ")");
  }
  if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    for (const auto& [key, item] : dict->items)
      out += (out.empty() ? "" : ", ") + python_string(key) + ": " + representation(item);
    return "{" + out + "}";
  }
  throw Problem(fmt::format("{} cannot be written as text", value.type()));
}

std::string json_text(const Value& value, int64_t indent, const std::string& item_separator,
                      const std::string& key_separator, bool sort_keys) {
  std::string out;
  write_json(value, {indent, item_separator, key_separator, sort_keys}, 0, out);
  return out;
}

std::vector<Value> items_of(const Value& value) {
  if (value.is_undefined()) return {};
  if (const List* list = value.list()) return list->items;
  std::vector<Value> items;
  if (const std::string* string = value.string()) {
    for (std::string& character : characters(*string)) items.emplace_back(std::move(character));
  } else if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    for (const auto& item : dict->items) items.emplace_back(item.first);
  } else {
    throw Problem(fmt::format("{} has no items", value.type()));
  }
  return items;
}

int64_t length(const Value& value) {
  if (const List* list = value.list()) return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->items.size());
  if (const std::string* string = value.string())
    return std::ranges::count_if(*string,
                                 [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  if (value.is_undefined()) return 0;
  throw Problem(fmt::format("{} has no length", value.type()));
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> all;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    const CodePoint point = decode_utf8(at, end);
    all.emplace_back(at, point.bytes);
    at += point.bytes;
  }
  return all;
}

}  // namespace pipeline::chat
