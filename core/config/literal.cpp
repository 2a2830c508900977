#include "core/config/literal.hpp"

#include <algorithm>

#include "core/config/value.hpp"

namespace pipeline::config {

Literal Literal::of_string(std::string text) {
  Literal literal;
  literal.kind = Kind::kString;
  literal.text = std::move(text);
  return literal;
}

std::string kind_name(const Literal& literal) {
  switch (literal.kind) {
    case Literal::Kind::kBool:
      return "a boolean";
    case Literal::Kind::kInt:
      return "an integer";
    case Literal::Kind::kFloat:
      return "a number with a decimal point";
    case Literal::Kind::kString:
      return "a string";
    case Literal::Kind::kArray:
      return "a list";
    case Literal::Kind::kOther:
      break;
  }
  return literal.what;
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
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
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
