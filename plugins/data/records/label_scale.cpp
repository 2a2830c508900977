#include "plugins/data/records/label_scale.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace pipeline::records {
namespace {

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string first_of(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += concat(" and ", names.size() - most, " more");
  return text;
}

}  // namespace

std::optional<double> written_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> label_number(std::string_view text) {
  const std::optional<double> value = written_number(text);
  if (!value || !(std::abs(*value) <= static_cast<double>(std::numeric_limits<float>::max())))
    return std::nullopt;
  return value;
}

std::optional<size_t> LabelScale::number_of(const std::string& name) const {
  const auto found = std::ranges::find(classes, name);
  return found == classes.end() ? std::nullopt : std::optional(static_cast<size_t>(found - classes.begin()));
}

void LabelCounts::add(double number, bool is_training) {
  ignore_indices_ += number == kIgnoreIndex ? 1 : 0;
  if (!is_training) return;
  const double from_mean = number - mean_;
  mean_ += from_mean / static_cast<double>(++count_);
  squares_ += from_mean * (number - mean_);
}

void LabelCounts::add(const std::string& name, bool is_training) {
  if (const auto found = classes_.find(name); found != classes_.end())
    found->second += is_training ? 1 : 0;
  else if (classes_.size() <= kMostClasses)
    classes_.emplace(name, is_training ? 1 : 0);
  count_ += is_training ? 1 : 0;
}

LabelScale LabelCounts::scale(const std::vector<std::string>& classes) const {
  LabelScale scale;
  scale.classes = classes;
  uint64_t most = 0;
  for (const auto& [name, count] : classes_) {
    if (classes.empty()) scale.classes.push_back(name);
    if (count > most) most = count, scale.usual = name;
  }
  const auto is_whole = [](const std::string& name) { return whole_number(name).has_value(); };
  if (classes.empty() && std::ranges::all_of(scale.classes, is_whole))
    std::ranges::sort(scale.classes, {}, [](const std::string& name) { return *whole_number(name); });
  scale.count = count_;
  scale.mean = mean_;
  const double deviation = count_ > 1 ? std::sqrt(squares_ / static_cast<double>(count_ - 1)) : 0;
  scale.deviation = deviation > 0 ? deviation : 1;
  return scale;
}

void LabelCounts::check_classes(const LabelScale& scale, const Context& context,
                                const ConfigErrors& errors) const {
  const std::vector<std::string>& classes = scale.classes;
  if (classes.empty())
    errors("label.classes", "must name the model's classes, in its order: neither data nor weights do");
  if (classes.size() < 2 || classes.size() > kMostClasses)
    errors("objective",
           concat("= \"classification\": the data has ",
                  classes.size() == 1 ? concat("1 class, ", classes.front())
                                      : concat("more than ", kMostClasses, " classes"),
                  ": must be 2 to ", kMostClasses,
                  classes.size() == 1 ? "" : "; are they numbers (task.objective = \"regression\")?"));
  std::vector<std::string> unknown, unseen;
  for (const auto& [name, count] : classes_)
    if (!scale.number_of(name)) unknown.push_back(name);
  for (auto one = classes.begin(); one != classes.end(); ++one) {
    if (std::find(one + 1, classes.end(), *one) != classes.end())
      errors("label.classes", concat("has \"", *one, "\" twice: each class must have its own name"));
    const auto found = classes_.find(*one);
    if (found == classes_.end() || found->second == 0) unseen.push_back(*one);
  }
  if (!unknown.empty())
    errors("label.classes", concat("the data has also ", quoted(unknown), ", and the model ", quoted(classes),
                                   ": name all of them, or leave their samples out"));
  if (!unseen.empty() && context.run().purpose == PL_PURPOSE_TRAIN)
    context.warn("labels     without a training sample, so that they cannot be learnt: ", quoted(unseen));
}

void LabelCounts::warn_of_words(const std::string& where, bool are_numbers, const Context& context) const {
  constexpr size_t kWordsShown = 5;
  const auto counted = [](uint64_t count, const char* noun) {
    return concat(count, " ", noun, count == 1 ? "" : "s");
  };
  std::vector<std::string> words;
  uint64_t all = 0;
  for (const auto& [word, count] : passed_over_) {
    words.push_back(concat(count, " \"", word, "\""));
    all += count;
  }
  if (all > 0)
    context.warn("labels     ", counted(all, "value"), " of \"", where,
                 "\" passed over, as words for no label: ", first_of(words, kWordsShown),
                 are_numbers ? "" : "; a class of that name must be named in task.label.classes");
  if (ignore_indices_ > 0)
    context.warn("labels     ", counted(ignore_indices_, "number"), " of \"", where,
                 "\" learnt as -100, which programs write where there is no label: if it is none, set "
                 "task.label.missing = \"-100\"");
}

std::string quoted(const std::vector<std::string>& names) {
  constexpr size_t kMostShown = 20;
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back("\"" + name + "\"");
  return first_of(all, kMostShown);
}

}  // namespace pipeline::records
