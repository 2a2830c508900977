#pragma once

#include <pipeline/namespace.hpp>
#include <pipeline/text.hpp>

#include <string>
#include <string_view>
#include <vector>

PIPELINE_SDK_BEGIN

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
  OptionSpec& required() {
    flags_ |= PL_OPTION_REQUIRED;
    return *this;
  }
  // A part of the model: not set, it follows the model that the run's values come from (ModelOptions), and
  // may not be set to anything else.
  OptionSpec& of_model() {
    flags_ |= PL_OPTION_OF_MODEL;
    return *this;
  }
  // Where it is not set, the option follows that model; the user may choose another value.
  OptionSpec& follows() {
    flags_ |= PL_OPTION_FOLLOWS;
    return *this;
  }
  // May differ when a run is continued: it cannot change the result.
  OptionSpec& may_change() {
    flags_ |= PL_OPTION_MAY_CHANGE;
    return *this;
  }

 private:
  friend class Options;
  friend class Schema;

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
