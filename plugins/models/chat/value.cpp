#include "plugins/models/chat/value.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/utf8.hpp"

namespace pipeline::chat {
namespace {

bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

// Whether Python escapes a character in a list: controls, spaces, and the commonest of what has no picture.
bool is_unprintable(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad || c == 0x1680 || (c >= 0x2000 && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202f) || (c >= 0x205f && c <= 0x206f) || c == 0x3000 || c == 0xfeff ||
         (c >= 0xe000 && c <= 0xf8ff);
}

uint32_t code_point(std::string_view text) {
  return decode_utf8(text.data(), text.data() + text.size()).value;
}

// How lists and dicts are written: as Python does, or as its json.dumps().
struct Form {
  bool json = false, ensure_ascii = false;
  int64_t indent = -1;
};

// ChatFormat's marks (U+FDD0 to U+FDD2), which it looks for in what is written, stay as they are.
std::string json_string(std::string_view text, bool ensure_ascii) {
  using nlohmann::ordered_json;
  constexpr size_t kBytes = 3;
  const auto is_mark = [](std::string_view mark) { return mark >= "\uFDD0" && mark <= "\uFDD2"; };
  std::string out = "\"";
  while (true) {
    size_t end = text.find("\xEF\xB7");
    while (end != text.npos && !is_mark(text.substr(end, kBytes))) end = text.find("\xEF\xB7", end + kBytes);
    const std::string part =
        ordered_json(text.substr(0, end)).dump(-1, ' ', ensure_ascii, ordered_json::error_handler_t::replace);
    out.append(part, 1, part.size() - 2);
    if (end == text.npos) return out + '"';
    out += text.substr(end, kBytes);
    text.remove_prefix(end + kBytes);
  }
}

std::string quoted(const std::string& text, const Form& form) {
  if (form.json) return json_string(text, form.ensure_ascii);
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(first_of(rest).size())) {
    constexpr std::string_view kEscaped = "\n\r\t", kLetters = "nrt";
    const uint32_t c = code_point(rest);
    if (const size_t i = kEscaped.find(rest[0]); i != std::string_view::npos) {
      out += {'\\', kLetters[i]};
    } else if (is_unprintable(c)) {
      out += c < 0x100 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
    } else {
      if (rest[0] == '\\' || rest[0] == quote) out += '\\';
      out += first_of(rest);
    }
  }
  return out + quote;
}

// A float as Python writes it: the shortest text that is read back as the same number.
std::string float_text(double value, const Form& form) {
  if (std::isnan(value)) return form.json ? "NaN" : "nan";
  if (std::isinf(value)) return (value < 0 ? "-" : "") + std::string(form.json ? "Infinity" : "inf");
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

void write(Rendering& rendering, const Value& value, const Form& form, size_t level, std::string& out) {
  const auto new_line = [&](size_t at) {
    if (form.indent < 0) return;
    const size_t spaces = at * static_cast<size_t>(form.indent);
    rendering.spend(spaces / 16);
    out += '\n' + std::string(spaces, ' ');
  };
  rendering.spend(1);
  if (value.type >= kTuple && value.type <= kDict) {
    const Members& members = *value.members;
    const bool is_dict = value.type == kDict, is_tuple = value.type == kTuple && !form.json;
    out += is_dict ? '{' : is_tuple ? '(' : '[';
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out += form.indent < 0 ? ", " : ",";
      new_line(level + 1);
      if (is_dict) out += quoted(members[i].first, form) + ": ";
      write(rendering, members[i].second, form, level + 1, out);
    }
    if (is_tuple && members.size() == 1) out += ',';
    if (!members.empty()) new_line(level);
    out += is_dict ? '}' : is_tuple ? ')' : ']';
  } else if (value.type == kString) {
    rendering.spend(value.string->size() / 16);
    out += quoted(*value.string, form);
  } else if (value.type == kBool) {
    out += form.json ? (value.integer ? "true" : "false") : (value.integer ? "True" : "False");
  } else if (value.type == kNone) {
    out += form.json ? "null" : "None";
  } else if (value.is_number()) {
    out += value.is_integer() ? std::to_string(value.integer) : float_text(value.number, form);
  } else {
    unread("the text of {}", value.name_of_type());
  }
}

}  // namespace

Value::Value(Type of, Members holds) : type(of) {
  constexpr size_t kDeepest = 100;
  for (const auto& [key, item] : holds) {
    if (item.type == kNamespace) throw Problem("a namespace holds no other");
    depth = std::max(depth, item.depth + 1);
  }
  if (depth > kDeepest) throw Problem("lists and dicts are nested too deeply");
  members = std::make_shared<Members>(std::move(holds));
}

Value Value::undefined(std::string_view name) {
  Value value(name);
  value.type = kUndefined;
  return value;
}

Value Value::of(const nlohmann::ordered_json& json, size_t depth) {
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) throw Problem("a number is too large");
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get_ref<const std::string&>();
  if (depth > 100) throw Problem("lists and dicts are nested too deeply");
  Members members;
  for (const auto& [key, item] : json.items())
    members.emplace_back(json.is_object() ? key : "", of(item, depth + 1));
  return Value(json.is_object() ? kDict : kList, std::move(members));
}

int64_t Value::integer_of(std::string_view what) const {
  if (is_integer()) return integer;
  unread("{} as {}", name_of_type(), what);
}

const std::string& Value::string_of(std::string_view what) const {
  if (type == kString) return *string;
  unread("{} as {}", name_of_type(), what);
}

const char* Value::name_of_type() const {
  constexpr const char* kNames[] = {"undefined",   "None",        "a bool",    "an int", "a float",
                                    "a str",       "a tuple",     "a list",    "a dict", "a view",
                                    "a generator", "a namespace", "a function"};
  return kNames[type];
}

const Value* find_in(Rendering& rendering, const Members& members, std::string_view key) {
  rendering.spend(members.size() / 8);
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

void set_in(Rendering& rendering, Members& members, std::string_view key, Value value) {
  rendering.spend(members.size() / 8);
  for (auto& [name, old] : members)
    if (name == key) return void(old = std::move(value));
  members.emplace_back(key, std::move(value));
}

bool truth(const Value& value) {
  if (value.is_number()) return value.number != 0;
  if (value.type == kString) return !value.string->empty();
  if (value.type >= kTuple && value.type <= kView) return !value.members->empty();
  return value.type > kView;
}

bool equal(Rendering& rendering, const Value& a, const Value& b) {
  rendering.spend(1);
  if (a.is_integer() && b.is_integer()) return a.integer == b.integer;
  if (a.is_number() && b.is_number()) return a.number == b.number;
  if (a.type != b.type) return false;
  if (a.type == kString) {
    rendering.spend(a.string->size() / 16);
    return *a.string == *b.string;
  }
  if (a.type > kDict) unread("{0} == {0}", a.name_of_type());
  if (a.members == nullptr) return true;  // None, or undefined
  if (a.members->size() != b.members->size()) return false;
  for (size_t i = 0; i < a.members->size(); ++i) {
    const auto& [key, item] = (*a.members)[i];
    const Value* other = a.type == kDict ? find_in(rendering, *b.members, key) : &(*b.members)[i].second;
    if (other == nullptr || !equal(rendering, item, *other)) return false;
  }
  return true;
}

bool less(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer < b.integer;
  if (a.is_number() && b.is_number()) return a.number < b.number;
  if (a.type == kString && b.type == kString)
    return *a.string < *b.string;  // UTF-8 sorts as its code points do
  unread("{} < {}", a.name_of_type(), b.name_of_type());
}

bool contains(Rendering& rendering, const Value& container, const Value& wanted) {
  if (container.type == kString) {
    rendering.spend_search(*container.string, wanted.string_of("what is looked for"));
    return container.string->find(*wanted.string) != std::string::npos;
  }
  if (container.type == kDict && wanted.members != nullptr) unread("{} in a dict", wanted.name_of_type());
  if (container.type == kDict)
    return wanted.type == kString && find_in(rendering, *container.members, *wanted.string) != nullptr;
  return std::ranges::any_of(items_of(rendering, container),
                             [&](const Value& item) { return equal(rendering, item, wanted); });
}

std::string text(Rendering& rendering, const Value& value) {
  std::string out;
  if (value.type == kString) {
    rendering.spend(value.string->size() / 16);
    return *value.string;
  }
  if (value.type != kUndefined) write(rendering, value, {}, 0, out);
  return out;
}

std::string json_text(Rendering& rendering, const Value& value, bool ensure_ascii, int64_t indent) {
  std::string out;
  write(rendering, value, {true, ensure_ascii, indent}, 0, out);
  return out;
}

Value list_of(const std::vector<Value>& items, Value::Type type) {
  Members members;
  for (const Value& each : items) members.emplace_back("", each);
  return Value(type, std::move(members));
}

std::vector<Value> items_of(Rendering& rendering, const Value& value) {
  std::vector<Value> items;
  if (value.type == kString) {
    rendering.spend(value.string->size());
    for (std::string_view rest = *value.string; !rest.empty(); rest.remove_prefix(first_of(rest).size()))
      items.emplace_back(first_of(rest));
  } else if (value.type >= kTuple && value.type <= kGenerator) {
    rendering.spend(value.members->size());
    for (const auto& [key, item] : *value.members) items.push_back(value.type == kDict ? Value(key) : item);
    if (value.type == kGenerator) value.members->clear();
  } else if (value.type != kUndefined) {
    throw Problem(fmt::format("{} has no items", value.name_of_type()));
  }
  return items;
}

std::string_view first_of(std::string_view text) {
  return text.substr(0, decode_utf8(text.data(), text.data() + text.size()).bytes);
}

std::string_view stripped(std::string_view text, bool left, bool right, const std::string* chosen) {
  const auto goes = [&](std::string_view c) {
    return chosen != nullptr ? chosen->find(c) != std::string::npos : is_space(code_point(c));
  };
  while (left && !text.empty() && goes(first_of(text))) text.remove_prefix(first_of(text).size());
  while (right && !text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (text[last] & 0xc0) == 0x80) --last;
    if (!goes(text.substr(last))) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

}  // namespace pipeline::chat
