#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pipeline::config {

// A value that has been checked against its option. Paths are kept as written; an integer may be a word of
// its option's instead, as a string.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                           std::vector<std::string>>;

// TOML source that reads back as exactly this value.
std::string to_toml(const Value& value);
std::string to_toml(std::string_view text);
std::string to_toml(double number);

// A value as written, before it is checked against an option.
struct Literal {
  enum class Kind { kBool, kInt, kFloat, kString, kArray, kOther };

  Kind kind = Kind::kOther;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string text;  // of a string; of kOther: its TOML source
  std::vector<Literal> items;
  std::string what;   // of kOther: "a date"
  std::string typed;  // what follows the = of --set, as typed; empty in files

  static Literal of_string(std::string text);
};

// "an integer", "a string", "a date".
std::string kind_name(const Literal& literal);
// TOML source.
std::string to_toml(const Literal& literal);
// TOML source for messages: long values are cut.
std::string shown(const Literal& literal);
// Whether the values are equal; 1 and 1.0 are.
bool same(const Literal& a, const Literal& b);
// If `text` is longer than `limit` bytes, cuts it between UTF-8 characters and adds "...".
std::string shorten(std::string text, size_t limit);

}  // namespace pipeline::config
