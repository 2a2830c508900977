#pragma once

#include <pipeline/error.hpp>
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

// One declared option. A config struct's `describe` chains the setters onto the declaration.
class OptionSpec {
 public:
  OptionSpec& min(double value) { return minimum(value, PL_OPTION_HAS_MINIMUM); }
  OptionSpec& above(double value) { return minimum(value, PL_OPTION_HAS_MINIMUM | PL_OPTION_ABOVE_MINIMUM); }
  OptionSpec& max(double value) { return maximum(value, PL_OPTION_HAS_MAXIMUM); }
  OptionSpec& below(double value) { return maximum(value, PL_OPTION_HAS_MAXIMUM | PL_OPTION_BELOW_MAXIMUM); }
  OptionSpec& unit(std::string_view text) {
    unit_ = text;
    return *this;
  }
  OptionSpec& choices(const std::vector<std::string_view>& values) {
    choices_.assign(values.begin(), values.end());
    return *this;
  }
  // No default: the user must give it.
  OptionSpec& required() { return with(PL_OPTION_REQUIRED); }
  // A part of the model: not set, it follows the model that the run's values come from (ModelOptions), and
  // may not be set to anything else.
  OptionSpec& of_model() { return with(PL_OPTION_OF_MODEL); }
  // Where it is not set, the option follows that model; the user may choose another value.
  OptionSpec& follows() { return with(PL_OPTION_FOLLOWS); }
  // May differ when a run is continued: it cannot change the result.
  OptionSpec& may_change() { return with(PL_OPTION_MAY_CHANGE); }

 private:
  friend class Options;
  friend class Schema;

  OptionSpec& with(uint32_t flag) {
    flags_ |= flag;
    return *this;
  }
  OptionSpec& minimum(double value, uint32_t flags) {
    flags_ = (flags_ & ~PL_OPTION_ABOVE_MINIMUM) | flags;
    minimum_ = value;
    return *this;
  }
  OptionSpec& maximum(double value, uint32_t flags) {
    flags_ = (flags_ & ~PL_OPTION_BELOW_MAXIMUM) | flags;
    maximum_ = value;
    return *this;
  }

  uint32_t type_ = 0;
  uint32_t flags_ = 0;
  double minimum_ = 0;
  double maximum_ = 0;
  std::string key_, default_, unit_, help_;
  std::vector<std::string> choices_;
};

PIPELINE_SDK_END
