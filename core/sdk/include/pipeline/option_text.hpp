// Option values as TOML source, for the defaults in a plugin's schema.
#pragma once

#include <pipeline/namespace.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

PIPELINE_SDK_BEGIN

inline std::string to_toml(bool value) { return value ? "true" : "false"; }

inline std::string to_toml(int64_t value) { return std::to_string(value); }

// The shortest text that reads back as the same number and is a float in TOML.
inline std::string to_toml(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text.find('.') == std::string::npos ? text + ".0" : text;
  while (text[exponent + 2] == '0') text.erase(exponent + 2, 1);  // 1e-04
  return text;
}

inline std::string to_toml(std::string_view value) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (c == '\r') {
      text += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      text += "\\u00";
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    } else {
      text += c;
    }
  }
  return text + '"';
}

inline std::string to_toml(const std::string& value) { return to_toml(std::string_view(value)); }
inline std::string to_toml(const std::filesystem::path& value) {
  return to_toml(std::string_view(value.native()));
}

template <class T>
std::string to_toml(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) {
    if (text.size() > 1) text += ", ";
    text += to_toml(value);
  }
  return text + ']';
}

PIPELINE_SDK_END
