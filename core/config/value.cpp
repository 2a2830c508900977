#include "core/config/value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/utf8.hpp"

namespace pipeline::config {
namespace {

template <class Items>
std::string list(const Items& items) {
  std::string text = "[";
  for (const auto& item : items) {
    if (text.size() > 1) text += ", ";
    text += to_toml(Value(item));
  }
  return text + "]";
}

}  // namespace

std::string to_toml(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[32];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof(buffer), number).ptr);
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text.find('.') == std::string::npos ? text + ".0" : text;
  // 1e-08 is what to_chars writes; 1e-8 is what people write.
  const size_t digits = exponent + 2;
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  if (text[exponent + 1] == '+') text.erase(exponent + 1, 1);
  return text;
}

std::string to_toml(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string to_toml(const Value& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return to_toml(number); }
    std::string operator()(const std::string& text) const { return to_toml(std::string_view(text)); }
    std::string operator()(const std::vector<int64_t>& items) const { return list(items); }
    std::string operator()(const std::vector<double>& items) const { return list(items); }
    std::string operator()(const std::vector<std::string>& items) const { return list(items); }
  };
  return std::visit(Writer(), value);
}

Literal Literal::of_string(std::string text) {
  Literal literal;
  literal.kind = Kind::kString;
  literal.text = std::move(text);
  return literal;
}

std::string kind_name(const Literal& literal) {
  static constexpr const char* kNames[] = {"a boolean", "an integer", "a number with a decimal point",
                                           "a string", "a list"};  // in the order of Kind
  return literal.kind == Literal::Kind::kOther ? literal.what : kNames[static_cast<size_t>(literal.kind)];
}

std::string to_toml(const Literal& literal) {
  switch (literal.kind) {
    case Literal::Kind::kBool:
      return literal.boolean ? "true" : "false";
    case Literal::Kind::kInt:
      return std::to_string(literal.integer);
    case Literal::Kind::kFloat:
      return to_toml(literal.number);
    case Literal::Kind::kString:
      return to_toml(std::string_view(literal.text));
    case Literal::Kind::kOther:
      return literal.text;
    case Literal::Kind::kArray:
      break;
  }
  std::string text = "[";
  for (const Literal& item : literal.items) {
    if (text.size() > 1) text += ", ";
    text += to_toml(item);
  }
  return text + "]";
}

std::string shorten(std::string text, size_t limit) {
  if (text.size() <= limit) return text;
  return std::string(utf8_prefix(text, limit)) + "...";
}

std::string shown(const Literal& literal) { return shorten(to_toml(literal), 80); }

bool same(const Literal& a, const Literal& b) {
  using Kind = Literal::Kind;
  const auto is_number = [](const Literal& x) { return x.kind == Kind::kInt || x.kind == Kind::kFloat; };
  const auto number = [](const Literal& x) {
    return x.kind == Kind::kInt ? static_cast<double>(x.integer) : x.number;
  };
  if (a.kind != b.kind) return is_number(a) && is_number(b) && number(a) == number(b);
  if (a.kind == Kind::kArray) return std::ranges::equal(a.items, b.items, same);
  return to_toml(a) == to_toml(b);
}

}  // namespace pipeline::config
