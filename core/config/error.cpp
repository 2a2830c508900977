#include "core/config/error.hpp"

#include <algorithm>
#include <tuple>

namespace pipeline::config {
namespace {

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text += '\n';
    text += line;
  }
  return text;
}

}  // namespace

std::string Origin::describe() const {
  const std::string place = kind == Kind::kSet       ? "--set " + set
                            : kind == Kind::kChange  ? "--change " + set
                            : kind == Kind::kChanged ? "changed " + set
                            : kind == Kind::kDefault ? "default"
                            : line > 0               ? file + ":" + std::to_string(line)
                                                     : file;
  return is_auto ? place + " (auto)" : place;
}

ConfigError::ConfigError(std::string problem) : ConfigError(std::vector<std::string>{std::move(problem)}) {}

ConfigError::ConfigError(std::vector<std::string> problems)
    : Error(PL_ERROR_CONFIG, join(problems)), problems_(std::move(problems)) {}

std::string format_problem(const Origin& origin, std::string_view key, std::string_view value,
                           std::string_view problem) {
  // "--set a.b=c" names key and value already, but not those inside of an inline table.
  if (origin.is_argument() && origin.set.find('{') == std::string::npos)
    return origin.describe() + ": " + std::string(problem);
  // A default stands in no line: the file is named where there is one, and that it is a default.
  const bool is_default = origin.kind == Origin::Kind::kDefault;
  std::string text = is_default ? origin.file : origin.describe();
  if (!text.empty()) text += ": ";
  text.append(key);
  if (!value.empty()) text.append(" = ").append(value).append(is_default ? " (default)" : "");
  return text.append(": ").append(problem);
}

void Problems::add(const Origin& origin, std::string line) {
  const bool known = std::ranges::any_of(entries_, [&](const Entry& entry) { return entry.line == line; });
  if (!known) entries_.push_back({origin, std::move(line)});
}

void Problems::throw_if_any() const {
  if (entries_.empty()) return;
  std::vector<Entry> sorted = entries_;
  std::ranges::stable_sort(sorted, {}, [](const Entry& entry) {
    return std::tuple(entry.origin.is_argument(), entry.origin.order, entry.origin.line);
  });
  std::vector<std::string> lines;
  for (Entry& entry : sorted) lines.push_back(std::move(entry.line));
  throw ConfigError(std::move(lines));
}

}  // namespace pipeline::config
