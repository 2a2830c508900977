#include "plugins/data/records/label_scale.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "plugins/data/files/texts.hpp"

namespace pipeline::records {
namespace {

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
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

std::optional<std::vector<std::string_view>> printed_list(std::string_view text) {
  text = files::trimmed(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  const std::string_view between = text.find(',') == std::string_view::npos ? files::kSpaces : ",";
  std::vector<std::string_view> values;
  for (size_t at = 0;;) {
    while (at < text.size() && (text[at] == ',' || files::kSpaces.find(text[at]) != std::string_view::npos))
      ++at;
    if (at == text.size()) return values;
    const bool is_quoted = text[at] == '\'' || text[at] == '"';
    const size_t begin = is_quoted ? at + 1 : at,
                 end = std::min(is_quoted ? text.find(text[at], begin) : text.find_first_of(between, begin),
                                text.size());
    const std::string_view value = text.substr(begin, end - begin);
    if (!is_quoted && value.find_first_of("[]") != std::string_view::npos) return std::nullopt;
    values.push_back(is_quoted ? value : files::trimmed(value));
    at = std::min(end + 1, text.size());
  }
}

std::optional<size_t> LabelScale::number_of(const std::string& name) const {
  const auto found = std::ranges::find(classes, name);
  return found == classes.end() ? std::nullopt : std::optional(static_cast<size_t>(found - classes.begin()));
}

void to_json(nlohmann::json& json, const LabelScale& scale) {
  json = {{"classes", scale.classes},    {"usual", scale.usual}, {"kind", scale.kind},
          {"where", scale.where},        {"count", scale.count}, {"mean", scale.mean},
          {"deviation", scale.deviation}};
}

void from_json(const nlohmann::json& json, LabelScale& scale) {
  scale = {.classes = json.at("classes").get<std::vector<std::string>>(),
           .mean = json.at("mean").get<double>(),
           .deviation = json.at("deviation").get<double>(),
           .usual = json.at("usual").get<std::string>(),
           .kind = json.at("kind").get<std::string>(),
           .where = json.at("where").get<std::string>(),
           .count = json.at("count").get<uint64_t>()};
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
  std::vector<std::string> words;
  uint64_t all = 0;
  for (const auto& [word, count] : passed_over_) {
    words.push_back(concat(count, " \"", word, "\""));
    all += count;
  }
  if (all > 0)
    context.warn("labels     ", files::counted(all, "value"), " of \"", where,
                 "\" passed over, as words for no label: ", files::first_of(words, kWordsShown),
                 are_numbers ? "" : "; a class of that name must be named in task.label.classes");
  if (ignore_indices_ > 0)
    context.warn("labels     ", files::counted(ignore_indices_, "number"), " of \"", where,
                 "\" learnt as -100, which programs write where there is no label: if it is none, set "
                 "task.label.missing = \"-100\"");
}

std::string quoted(const std::vector<std::string>& names) {
  constexpr size_t kMostShown = 20;
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back("\"" + name + "\"");
  return files::first_of(all, kMostShown);
}

}  // namespace pipeline::records
