// What a model computes may be no number: NaN, of ruined weights or in a precision that is too narrow.
#pragma once

#include <pipeline/error.hpp>

#include <cmath>
#include <span>
#include <string_view>

PIPELINE_SDK_BEGIN

// Orders for std::sort and its like, which may do anything where a comparison is no order; < is none where a
// value is NaN. Here NaN comes last, in both.
struct Rising {
  template <class Number>
  bool operator()(Number a, Number b) const {
    return a < b || (std::isnan(b) && !std::isnan(a));
  }
};
struct Falling {
  template <class Number>
  bool operator()(Number a, Number b) const {
    return a > b || (std::isnan(b) && !std::isnan(a));
  }
};

template <class Number>
bool has_nan(std::span<const Number> values) {
  bool has = false;
  for (const Number value : values) has |= std::isnan(value);  // all of them, which the compiler makes fast
  return has;
}

[[noreturn]] inline void fail_as_nan(std::string_view sample, std::string_view column) {
  fail_with(PL_ERROR_CONFIG, "sample \"", sample, "\": ", column,
            " is nan, must be a number: the model computes none for it. Are its weights ruined (try an "
            "earlier --checkpoint), or is train.precision too narrow (try \"fp32\")?");
}

// Throws where a result for the user is NaN: the user would take "nan", or what was sorted by it, for one.
template <class Number>
void require_numbers(std::span<const Number> values, std::string_view sample, std::string_view column) {
  if (has_nan(values)) fail_as_nan(sample, column);
}

PIPELINE_SDK_END
