#include "core/config/option.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/utf8.hpp"
#include "core/config/error.hpp"
#include "core/config/sources.hpp"
#include "core/config/suggest.hpp"

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

struct TypeNames {
  const char* name;
  const char* plural;
};

constexpr TypeNames kScalars[] = {{"boolean", "booleans"},
                                  {"integer", "integers"},
                                  {"number", "numbers"},
                                  {"string", "strings"},
                                  {"path", "paths"}};

// The number without the ".0" that TOML wants.
std::string plain(double number) {
  std::string text = to_toml(number);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::vector<std::string> choices_of(const pl_option& option) {
  std::vector<std::string> choices;
  for (uint32_t i = 0; option.choices && i < option.choice_count; ++i)
    choices.emplace_back(view(option.choices[i]));
  return choices;
}

std::string limits(const pl_option& option) {
  const bool low = option.flags & PL_OPTION_HAS_MINIMUM;
  const bool high = option.flags & PL_OPTION_HAS_MAXIMUM;
  const std::string minimum =
      (option.flags & PL_OPTION_ABOVE_MINIMUM ? "above " : "at least ") + plain(option.minimum);
  const std::string maximum =
      (option.flags & PL_OPTION_BELOW_MAXIMUM ? "below " : "at most ") + plain(option.maximum);
  return low && high ? minimum + " and " + maximum : low ? minimum : maximum;
}

template <class Number>
bool in_range(const pl_option& option, Number number) {
  const auto x = static_cast<double>(number);
  if ((option.flags & PL_OPTION_HAS_MINIMUM) &&
      !(option.flags & PL_OPTION_ABOVE_MINIMUM ? x > option.minimum : x >= option.minimum))
    return false;
  return !(option.flags & PL_OPTION_HAS_MAXIMUM) ||
         (option.flags & PL_OPTION_BELOW_MAXIMUM ? x < option.maximum : x <= option.maximum);
}

Checked wrong(std::string problem) { return {std::nullopt, std::move(problem)}; }

template <class Number>
Checked in_range_or_wrong(const pl_option& option, Number number) {
  if (!in_range(option, number)) return wrong("out of range: must be " + limits(option));
  return {Value(number), ""};
}

// A string that holds what the option wants: "20" for 20.
bool is_quoted(const pl_option& option, const Literal& literal) {
  if (literal.kind != Literal::Kind::kString) return false;
  const std::optional<Literal> inside = parse_value(literal.text);
  return inside && inside->kind != Literal::Kind::kString && check(option, *inside).value.has_value();
}

Checked check_bool(const Literal& literal) {
  if (literal.kind == Literal::Kind::kBool) return {Value(literal.boolean), ""};
  for (const char* word : {"true", "false"})
    if (literal.kind == Literal::Kind::kString && edit_distance(literal.text, word) == 0)
      return wrong("must be true or false: write " + std::string(word) + " without quotes");
  return wrong("must be true or false, is " + kind_name(literal));
}

// Checks a word against the option's choices: an integer's other values, or all that a string may be.
Checked check_choice(const pl_option& option, const std::string& text) {
  const std::vector<std::string> choices = choices_of(option);
  if (std::ranges::find(choices, text) != choices.end()) return {Value(text), ""};
  const std::string near = closest(text, choices);
  const std::string_view ours = our_value_for(text);
  return wrong((option.type == PL_OPTION_INT ? "is neither an integer nor " : "is not one of ") +
               alternatives(choices) +
               (!ours.empty()  ? ": " + std::string(ours)
                : near.empty() ? ""
                               : ": did you mean " + near + "?"));
}

Checked check_int(const pl_option& option, const Literal& literal) {
  if (literal.kind == Literal::Kind::kInt) return in_range_or_wrong(option, literal.integer);
  if (literal.kind == Literal::Kind::kFloat && std::abs(literal.number) < 9e15 &&
      literal.number == std::floor(literal.number))
    return wrong("must be an integer: write " + std::to_string(static_cast<int64_t>(literal.number)));
  if (is_quoted(option, literal))
    return wrong("must be an integer: write " + literal.text + " without quotes");
  if (option.choice_count > 0 && literal.kind == Literal::Kind::kString)
    return check_choice(option, literal.text);
  return wrong("must be an integer, is " + kind_name(literal));
}

Checked check_float(const pl_option& option, const Literal& literal) {
  if (literal.kind == Literal::Kind::kInt)
    return in_range_or_wrong(option, static_cast<double>(literal.integer));
  if (literal.kind == Literal::Kind::kFloat)
    return std::isfinite(literal.number) ? in_range_or_wrong(option, literal.number)
                                         : wrong("must be a finite number");
  if (is_quoted(option, literal)) return wrong("must be a number: write " + literal.text + " without quotes");
  return wrong("must be a number, is " + kind_name(literal));
}

Checked check_string(const pl_option& option, const Literal& literal) {
  // On the command line 2024 and true are words like others.
  const bool is_word = !literal.typed.empty() && literal.kind != Literal::Kind::kArray;
  if (literal.kind != Literal::Kind::kString && !is_word)
    return wrong("must be a string, is " + kind_name(literal) + ": put it in quotes");
  const std::string& text = literal.kind == Literal::Kind::kString ? literal.text : literal.typed;
  if (option.type == PL_OPTION_PATH && text.starts_with('$'))
    return wrong("variables are not replaced here: write the path itself; ~/ is the home folder");
  return option.choice_count == 0 ? Checked{Value(text), ""} : check_choice(option, text);
}

Checked check_scalar(const pl_option& option, const Literal& literal) {
  return option.type == PL_OPTION_BOOL    ? check_bool(literal)
         : option.type == PL_OPTION_INT   ? check_int(option, literal)
         : option.type == PL_OPTION_FLOAT ? check_float(option, literal)
                                          : check_string(option, literal);
}

template <class T>
Checked check_items(const pl_option& element, const Literal& literal) {
  std::vector<T> values;
  for (const Literal& item : literal.items) {
    Checked checked = check_scalar(element, item);
    if (!checked.value) return wrong("element " + std::to_string(values.size() + 1) + " " + checked.problem);
    values.push_back(std::get<T>(std::move(*checked.value)));
  }
  return {Value(std::move(values)), ""};
}

std::string list_remedy(const pl_option& option, const Literal& literal) {
  pl_option element = option;
  element.type = element_type(option.type);
  const Checked one = check_scalar(element, literal);
  return one.value ? ": write [" + to_toml(*one.value) + "]"
                   : ": write it in brackets, with commas between the elements";
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

std::string type_name(uint32_t type) {
  if (type >= PL_OPTION_BOOL && type <= PL_OPTION_PATH) return kScalars[type - PL_OPTION_BOOL].name;
  if (is_list(type)) return std::string("list of ") + kScalars[element_type(type) - PL_OPTION_BOOL].plural;
  return "type " + std::to_string(type);
}

uint32_t element_type(uint32_t type) {
  static_assert(PL_OPTION_PATH_LIST - PL_OPTION_INT_LIST == PL_OPTION_PATH - PL_OPTION_INT);
  return is_list(type) ? type - PL_OPTION_INT_LIST + PL_OPTION_INT : type;
}

bool is_list(uint32_t type) { return type >= PL_OPTION_INT_LIST && type <= PL_OPTION_PATH_LIST; }

bool can_be_unset(const pl_option& option) {
  const uint32_t element = element_type(option.type);
  return option.default_value.len == 0 && !(option.flags & PL_OPTION_REQUIRED) &&
         element != PL_OPTION_STRING && element != PL_OPTION_PATH;
}

std::string range_text(const pl_option& option) {
  if (option.choices && option.choice_count > 0) {
    pl_option number = option;
    number.choice_count = 0;
    std::vector<std::string> choices = choices_of(option);
    if (const std::string range = range_text(number); option.type == PL_OPTION_INT && !range.empty())
      choices.push_back(range);
    return alternatives(choices);
  }
  const bool low = option.flags & PL_OPTION_HAS_MINIMUM;
  const bool high = option.flags & PL_OPTION_HAS_MAXIMUM;
  const bool above = option.flags & PL_OPTION_ABOVE_MINIMUM;
  const std::string maximum = (option.flags & PL_OPTION_BELOW_MAXIMUM ? "< " : "<= ") + plain(option.maximum);
  if (low && high && !above && !(option.flags & PL_OPTION_BELOW_MAXIMUM))
    return plain(option.minimum) + " to " + plain(option.maximum);
  if (low && high) return plain(option.minimum) + (above ? " < x " : " <= x ") + maximum;
  if (low) return (above ? "> " : ">= ") + plain(option.minimum);
  return high ? maximum : "";
}

Checked check(const pl_option& option, const Literal& literal) {
  if (!is_list(option.type)) return check_scalar(option, literal);
  // One name is a list of one; a path may be meant as several.
  if (option.type == PL_OPTION_STRING_LIST && literal.kind == Literal::Kind::kString)
    return {Value(std::vector<std::string>{literal.text}), ""};
  if (literal.kind != Literal::Kind::kArray)
    return wrong("must be a " + type_name(option.type) + ", is " + kind_name(literal) +
                 list_remedy(option, literal));
  pl_option element = option;
  element.type = element_type(option.type);
  return element.type == PL_OPTION_INT     ? check_items<int64_t>(element, literal)
         : element.type == PL_OPTION_FLOAT ? check_items<double>(element, literal)
                                           : check_items<std::string>(element, literal);
}

std::optional<Value> default_value(const pl_option& option) {
  const std::string_view source = view(option.default_value);
  if (source.empty()) return {};
  const std::optional<Literal> literal = parse_value(source);
  const auto fail = [&](const std::string& problem) {
    return Error("option '" + std::string(view(option.key)) + "': default `" + std::string(source) + "` " +
                 problem);
  };
  if (!literal) throw fail("is not one TOML value");
  Checked checked = check(option, *literal);
  if (!checked.value) throw fail(checked.problem);
  return checked.value;
}

}  // namespace pipeline::config
