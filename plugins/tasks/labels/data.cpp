#include "plugins/tasks/labels/data.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "plugins/data/files/hash128.hpp"

namespace pipeline::tasks::labels {
namespace {

// A sample is the tokens of its first text, one more token where it has a label, and the tokens of the second
// text. Beside them are the name and the label.
enum Part : size_t { kFirst, kHasLabel, kSecond };

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// How many tokens of each text there is room for: the longer one gives way first.
struct Lengths {
  int64_t first, second;
  bool is_cut;
};

Lengths lengths(const TokenSample& sample, Begin begin, int64_t most) {
  const auto size_of = [&](Part part) { return static_cast<int64_t>(sample.parts.at(part).size()); };
  const int64_t first = size_of(kFirst), second = size_of(kSecond);
  const int64_t room = std::max<int64_t>(most - (begin ? second > 0 ? 2 : 1 : 0), 2);
  if (first + second <= room) return {first, second, false};
  const int64_t half = room / 2, kept_second = std::clamp(room - first, std::min(half, second), second);
  return {room - kept_second, kept_second, true};
}

}  // namespace

std::string Reader::key() const {
  std::string key = concat("labels/1 ", static_cast<int>(kind), " ", missing.size(), " ", missing);
  for (const std::string& name : classes) key += concat("\n", name.size(), " ", name);
  return key;
}

bool Reader::is_none(std::string_view text) const {
  if (std::ranges::find(classes, text) != classes.end()) return false;
  if (!missing.empty() && text == missing) return true;
  if (kind == Kind::kSeveral) return records::is_word_for_none(text);
  return text.empty() || records::is_word_for_none(text) ||
         (kind == Kind::kClass && records::label_number(text) == records::kIgnoreIndex);
}

std::string Reader::problem_of(std::string_view text) const {
  if (kind == Kind::kNumber && !records::label_number(text)) return "is no number, or too large a one";
  if (kind != Kind::kSeveral) return "";
  std::set<std::string> names;
  for (const std::string& name : names_of(text))
    if (!names.insert(name).second)
      return concat(
          "names \"", name,
          "\" twice: a list must have the names or numbers of the classes that are there, not a 1 or 0 "
          "for each of all");
  return "";
}

std::vector<std::string> names_of(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (const std::string_view name = trimmed(text.substr(0, end)); !name.empty()) names.emplace_back(name);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return names;
}

stores::TokenReport read_samples(const records::PairSource& source, const Reader& labels,
                                 const Encoder& encoder, const files::Hooks& hooks,
                                 const stores::TokenSink& add) {
  const bool may_lack_one = !source.columns.second_required && labels.kind != Kind::kSeveral;
  uint64_t left_out = 0;
  std::string example;
  struct Read {
    std::string sample;       // empty: it has no label
    std::string name, label;  // then
  };
  stores::TokenReport report = source.read_on_threads<Read>(
      hooks,
      [&](const records::Pair& record) -> Read {
        const std::string label(trimmed(record.second));
        const bool has_one = !labels.is_none(label);
        if (!has_one && !may_lack_one) return {.sample = {}, .name = record.id, .label = label};
        if (const std::string problem = has_one ? labels.problem_of(label) : ""; !problem.empty())
          throw files::DataError(concat(source.files.named, ": record ", record.id, ": \"",
                                        label.substr(0, 60), "\" in column \"", labels.column, "\" ",
                                        problem));
        std::string beside;
        files::put_text(beside, record.id);
        files::put_text(beside, label);
        const std::vector<int32_t> second =
            record.extra.empty() ? std::vector<int32_t>() : encoder.encode(record.extra);
        const std::vector<int32_t> first = encoder.encode(record.first), mark(has_one ? 1 : 0);
        if (first.empty())
          throw files::DataError(concat(source.files.named, ": record ", record.id, ": \"",
                                        record.first.substr(0, 60),
                                        "\" has no token in this vocabulary: leave it out"));
        return {.sample = stores::pack_tokens({first, mark, second}, beside, encoder.vocabulary_size),
                .name = {},
                .label = {}};
      },
      [&](Read&& one) {
        if (!one.sample.empty()) return add(std::move(one.sample));
        if (left_out++ == 0) example = concat("\"", one.label, "\" of ", one.name);
      });
  if (left_out == 0) return report;
  report.used -= left_out;
  report.notes += concat(
      left_out, left_out == 1 ? " record" : " records", " of ", source.files.name(),
      " left out, whose label in column \"", labels.column, "\" is a word for none: the first is ", example,
      labels.kind == Kind::kNumber ? "" : "; a class of that name must be named in task.label.classes", "\n");
  return report;
}

std::string name_of(const TokenSample& sample) {
  std::string_view beside = sample.beside;
  std::string name;
  if (!files::take_text(beside, name)) fail("a sample of the cache has no name");
  return name;
}

std::optional<std::string> label_of(const TokenSample& sample) {
  if (!sample.has_target()) return std::nullopt;
  std::string_view beside = sample.beside;
  std::string name, label;
  if (!files::take_text(beside, name) || !files::take_text(beside, label))
    fail("a sample of the cache has no label");
  return label;
}

std::vector<int64_t> tokens_of(const TokenSample& sample, Begin begin, int64_t most) {
  const Lengths length = lengths(sample, begin, most);
  std::vector<int64_t> tokens;
  const auto append = [&](Part part, int64_t count) {
    if (begin) tokens.push_back(*begin);
    sample.parts.at(part).append_to(tokens, static_cast<uint32_t>(count));
  };
  append(kFirst, length.first);
  if (sample.parts.at(kSecond).size() > 0) append(kSecond, length.second);
  return tokens;
}

bool is_cut(const TokenSample& sample, Begin begin, int64_t most) {
  return lengths(sample, begin, most).is_cut;
}

}  // namespace pipeline::tasks::labels
