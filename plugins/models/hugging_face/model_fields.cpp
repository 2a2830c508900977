#include "hugging_face/model_fields.hpp"

#include <algorithm>
#include <cmath>

namespace pipeline::hugging_face {

void Limits::limit(OptionSpec& option) const {
  if (!unit.empty()) option.unit(unit);
  if (!choices.empty()) option.choices(choices);
  if (least_set) option.min(static_cast<double>(*least_set));
  if (most_set) option.max(static_cast<double>(*most_set));
  if (kind == Kind::kPositive) option.above(0);
  if (kind == Kind::kNotNegative || kind == Kind::kShare) option.min(0);
  if (kind == Kind::kShare) option.below(1);
}

void Limits::check(const std::string& key, int64_t value) const {
  if (kind == Kind::kRange) check_range(key.c_str(), value, least, most);
}

void Limits::check(const std::string& key, double value) const {
  if (kind == Kind::kPositive) check_positive(key.c_str(), value);
  if (kind == Kind::kShare) check_share(key.c_str(), value);
  if (kind == Kind::kNotNegative && (!(value >= 0) || std::isinf(value)))
    fail_with(PL_ERROR_CONFIG, key, " = ", value, ": must be a number from 0 on");
}

void Limits::check(const std::string& key, const std::string& value) const {
  if (choices.empty() || std::ranges::find(choices, value) != choices.end()) return;
  std::string all;
  for (size_t i = 0; i < choices.size(); ++i)
    all += concat(i == 0 ? "" : i + 1 < choices.size() ? ", " : " or ", "\"", choices[i], "\"");
  fail_with(PL_ERROR_CONFIG, key, " = \"", value, "\": must be ", all);
}

}  // namespace pipeline::hugging_face
