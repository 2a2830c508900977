#include "core/plugins/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/str.hpp"
#include "core/base/struct_copy.hpp"
#include "core/config/option.hpp"

namespace pipeline::plugins {
namespace {

constexpr uint32_t kOptionFlags = PL_OPTION_REQUIRED | PL_OPTION_HAS_MINIMUM | PL_OPTION_HAS_MAXIMUM |
                                  PL_OPTION_ABOVE_MINIMUM | PL_OPTION_BELOW_MAXIMUM | PL_OPTION_MAY_CHANGE |
                                  PL_FLAGS_MAY_IGNORE;

// [a-z0-9_]+ separated by dots.
bool is_key(std::string_view key) {
  bool start = true;
  for (char c : key) {
    if (c == '.' ? start : !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
    start = c == '.';
  }
  return !start;
}

bool is_number(uint32_t type) {
  return type == PL_OPTION_INT || type == PL_OPTION_FLOAT || type == PL_OPTION_INT_LIST ||
         type == PL_OPTION_FLOAT_LIST;
}

class OptionCheck {
 public:
  explicit OptionCheck(const pl_option& option) : option_(option) {}

  void run() const {
    if (!is_key(view(option_.key)))
      fail("the key must be lower-case words separated by dots, like \"model.n_head\"");
    if (view(option_.key) == "plugin") fail("this key names the plugin itself");
    if (option_.type < PL_OPTION_BOOL || option_.type > PL_OPTION_PATH_LIST)
      fail(fmt::format("type {} is unknown", option_.type));
    if (option_.flags & ~kOptionFlags)
      fail(fmt::format("flags {:#x} has bits that are unknown", option_.flags));
    check_range();
    check_choices();
    check_default();
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const {
    throw Error(fmt::format("option '{}': {}", view(option_.key), problem));
  }

  bool flag(uint32_t bit) const { return option_.flags & bit; }

  void check_range() const {
    if ((flag(PL_OPTION_HAS_MINIMUM) || flag(PL_OPTION_HAS_MAXIMUM)) && !is_number(option_.type))
      fail(fmt::format("type {} cannot have a minimum or maximum", config::type_name(option_.type)));
    if (flag(PL_OPTION_ABOVE_MINIMUM) && !flag(PL_OPTION_HAS_MINIMUM))
      fail("ABOVE_MINIMUM needs HAS_MINIMUM");
    if (flag(PL_OPTION_BELOW_MAXIMUM) && !flag(PL_OPTION_HAS_MAXIMUM))
      fail("BELOW_MAXIMUM needs HAS_MAXIMUM");
    if (flag(PL_OPTION_HAS_MINIMUM) && flag(PL_OPTION_HAS_MAXIMUM) && !(option_.minimum <= option_.maximum))
      fail(fmt::format("minimum {} is above maximum {}", option_.minimum, option_.maximum));
  }

  void check_choices() const {
    if (option_.choice_count == 0) return;
    if (!option_.choices) fail(fmt::format("choice_count is {} and choices is NULL", option_.choice_count));
    if (option_.type != PL_OPTION_STRING && option_.type != PL_OPTION_STRING_LIST)
      fail(fmt::format("type {} cannot have choices", config::type_name(option_.type)));
  }

  // The default as the configuration's reader would see it; it must obey the option's own rules.
  void check_default() const {
    const std::string source(view(option_.default_value));
    if (flag(PL_OPTION_REQUIRED)) {
      if (!source.empty()) fail(fmt::format("is required and has a default, {}", source));
      return;
    }
    if (source.empty()) fail("has no default and is not marked PL_OPTION_REQUIRED");
    (void)config::default_value(option_);
  }

  const pl_option& option_;
};

// Two options cannot be one key, nor one a value and the other a table below it.
void check_keys(std::vector<std::string> keys) {
  std::sort(keys.begin(), keys.end());
  for (const std::string& key : keys) {
    if (std::count(keys.begin(), keys.end(), key) > 1)
      throw Error(fmt::format("option '{}': occurs twice", key));
    for (const std::string& other : keys)
      if (other.starts_with(key + "."))
        throw Error(fmt::format("option '{}': is a value and, because of '{}', a table", key, other));
  }
}

}  // namespace

std::vector<pl_option> copy_options(const pl_plugin& table) {
  if (table.option_count == 0) return {};
  if (!table.options) throw Error(fmt::format("option_count is {} and options is NULL", table.option_count));
  constexpr uint32_t kFirstSize = offsetof(pl_option, maximum) + sizeof(double);  // in ABI 1.0
  const uint32_t stride = struct_size_of(table.options);
  if (stride < kFirstSize || stride % alignof(pl_option) != 0)
    throw Error(fmt::format("its pl_option has {} bytes, must be at least {} and a multiple of {}", stride,
                            kFirstSize, alignof(pl_option)));

  std::vector<pl_option> options;
  std::vector<std::string> keys;
  const auto* bytes = reinterpret_cast<const char*>(table.options);
  for (uint64_t i = 0; i < table.option_count; ++i) {
    if (struct_size_of(bytes + i * stride) != stride)
      throw Error(fmt::format("option {}: struct_size is {}, the first one's is {}", i,
                              struct_size_of(bytes + i * stride), stride));
    options.push_back(copy_and_extend<pl_option>(bytes + i * stride));
    options.back().type = PL_CODE(options.back().type);
    OptionCheck(options.back()).run();
    keys.emplace_back(view(options.back().key));
  }
  check_keys(std::move(keys));
  return options;
}

}  // namespace pipeline::plugins
