#include "plugins/tasks/labels/data.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/files/texts.hpp"
#include "plugins/data/records/json_records.hpp"

namespace pipeline::tasks::labels {
namespace {

// A sample is the tokens of its first text, one more token where it has a label, and the tokens of the second
// text; with kTags also how many tokens each word has. Beside them are the name, the label and the text.
enum Part : size_t { kFirst, kHasLabel, kSecond, kWords };

// A label for people.
std::string shown(std::string_view label) {
  if (!label.starts_with(records::kListMark)) return std::string(label.substr(0, 60));
  std::string text;
  for (const char c : label.substr(1, 60)) text += c == records::kListBreak ? ',' : c;
  return text;
}

// How many tokens of each text there is room for: the longer one gives way first.
struct Lengths {
  int64_t first, second;
  bool is_cut;
};

Lengths lengths(const TokenSample& sample, const Frame& frame, int64_t most) {
  const auto size_of = [&](Part part) { return static_cast<int64_t>(sample.parts.at(part).size()); };
  const int64_t first = size_of(kFirst), second = size_of(kSecond);
  const int64_t room = std::max<int64_t>(most - frame.size(second > 0), 2);
  if (first + second <= room) return {first, second, false};
  const int64_t half = room / 2, kept_second = std::clamp(room - first, std::min(half, second), second);
  return {room - kept_second, kept_second, true};
}

}  // namespace

std::string Reader::key() const {
  std::string key = concat("labels/3 ", static_cast<int>(kind), " ", missing.size(), " ", missing);
  for (const std::string& name : classes) key += concat("\n", name.size(), " ", name);
  return key;
}

bool Reader::is_none(std::string_view text) const {
  if (kind == Kind::kTags && parts_of(text, true).empty()) return true;
  if (std::ranges::find(classes, text) != classes.end()) return false;
  if (!missing.empty() && text == missing) return true;
  return text.empty() || records::is_word_for_none(text) ||
         (kind != Kind::kNumber && records::label_number(text) == records::kIgnoreIndex);
}

ClassNames::ClassNames(const std::vector<std::string>& names) : names_(names) {
  for (size_t i = 0; i < names.size(); ++i) numbers_.emplace(names[i], i);
  are_counted_ = std::ranges::none_of(
      names, [](const std::string& name) { return records::label_number(name).has_value(); });
}

std::optional<size_t> ClassNames::number_of(const std::string& label) const {
  if (const auto found = numbers_.find(label); found != numbers_.end()) return found->second;
  size_t number = 0;
  const char* const end = label.data() + label.size();
  const auto [last, error] = std::from_chars(label.data(), end, number);
  const bool is_number = are_counted_ && error == std::errc() && last == end && number < names_.size();
  return is_number ? std::optional(number) : std::nullopt;
}

std::string ClassNames::meant(const std::string& label) const {
  const std::optional<size_t> number = number_of(label);
  return number ? names_[*number] : label;
}

std::string Reader::problem_of(std::string_view text) const {
  if (kind == Kind::kNumber && !records::label_number(text)) return "is no number, or too large a one";
  if (kind != Kind::kSeveral) return "";
  std::set<std::string> names;
  for (const std::string& name : parts_of(text, false))
    if (!names.insert(name).second)
      return concat(
          "names \"", name, "\" twice: each class is named once",
          name == "0" || name == "1" ? ", by its name or number, and not a 1 or 0 for each of all" : "");
  return "";
}

// 1.0 where programs have made floats of whole numbers.
std::string Reader::written(std::string_view text) const {
  if (kind != Kind::kClass || std::ranges::find(classes, text) != classes.end() ||
      text.find('.') == std::string_view::npos)
    return std::string(text);
  const std::optional<double> number = records::label_number(text);
  const bool is_whole = number && *number == std::floor(*number) && std::abs(*number) < 1e15;
  return is_whole ? std::to_string(static_cast<int64_t>(*number)) : std::string(text);
}

std::vector<std::string> parts_of(std::string_view text, bool are_words) {
  std::vector<std::string> parts;
  if (text.starts_with(records::kListMark)) return records::items_of(text);
  if (const auto list = records::printed_list(text)) return {list->begin(), list->end()};
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(are_words ? files::kSpaces : ","), text.size());
    if (const std::string_view part = files::trimmed(text.substr(0, end)); !part.empty())
      parts.emplace_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

stores::TokenReport read_samples(const records::PairSource& source, const Reader& labels,
                                 const Encoder& encoder, const files::Hooks& hooks,
                                 const stores::TokenSink& add) {
  const bool may_lack_one = !source.columns.second_required;
  uint64_t left_out = 0;
  std::string example;
  struct Read {
    std::string sample;       // empty: it has no label
    std::string name, label;  // then
  };
  stores::TokenReport report = source.read_on_threads<Read>(
      hooks,
      [&](const records::Pair& record) -> Read {
        const bool are_tags = labels.kind == Kind::kTags;
        const std::string label = labels.written(files::trimmed(record.second));
        const bool has_one = !labels.is_none(label);
        if (!has_one && !may_lack_one) return {.sample = {}, .name = record.id, .label = label};
        if (const std::string problem = has_one ? labels.problem_of(label) : ""; !problem.empty())
          throw files::DataError(concat(source.files.named, ": record ", record.id, ": \"", shown(label),
                                        "\" in column \"", labels.column, "\" ", problem));
        std::string beside;
        for (const std::string& text : {record.id, label, record.first}) files::put_text(beside, text);
        std::vector<int32_t> first, second, lengths, mark(has_one ? 1 : 0);
        if (are_tags) {
          const std::vector<std::string> words = parts_of(record.first, true);
          if (const size_t tags = parts_of(label, true).size(); has_one && tags != words.size())
            throw files::DataError(concat(source.files.named, ": record ", record.id, " has ", words.size(),
                                          " words in column \"", source.columns.first, "\" and ", tags,
                                          " labels in column \"", labels.column, "\""));
          for (const std::string& word : words) {
            const auto own = first.empty() ? encoder.encode(word) : encoder.encode_within(" " + word);
            first.insert(first.end(), own.begin(), own.end());
            lengths.push_back(static_cast<int32_t>(own.size()));
          }
        } else {
          first = encoder.encode(record.first);
          if (!record.extra.empty()) second = encoder.encode(record.extra);
        }
        if (first.empty())
          throw files::DataError(concat(source.files.named, ": record ", record.id, ": \"",
                                        record.first.substr(0, 60),
                                        "\" has no token in this vocabulary: leave it out"));
        return {
            .sample = stores::pack_tokens({first, mark, second, lengths}, beside, encoder.vocabulary_size),
            .name = {},
            .label = {}};
      },
      [&](Read&& one) {
        if (!one.sample.empty()) return add(std::move(one.sample));
        if (left_out++ == 0) example = concat("\"", shown(one.label), "\" of record ", one.name);
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

std::string text_of(const TokenSample& sample) {
  std::string_view beside = sample.beside;
  std::string text;
  for (int i = 0; i < 3; ++i)
    if (!files::take_text(beside, text)) fail("a sample of the cache has no text");
  return text;
}

std::vector<int64_t> word_rows(const TokenSample& sample, const Frame& frame, int64_t most) {
  std::vector<int64_t> rows;
  int64_t end = frame.begin ? 1 : 0;
  const stores::TokenView& words = sample.parts.at(kWords);
  for (uint32_t i = 0; i < words.size(); ++i) {
    const int64_t first = end;
    end += words[i];
    if (end > most - (frame.end ? 1 : 0)) break;
    rows.push_back(frame.end ? std::min(first, std::max<int64_t>(end - 1, 0))
                             : std::max<int64_t>(end - 1, 0));
  }
  return rows;
}

Framed framed(const TokenSample& sample, const Frame& frame, int64_t most) {
  const Lengths length = lengths(sample, frame, most);
  Framed result;
  std::vector<int64_t>& tokens = result.tokens;
  const bool has_second = sample.parts.at(kSecond).size() > 0;
  if (frame.begin) tokens.push_back(*frame.begin);
  sample.parts.at(kFirst).append_to(tokens, static_cast<uint32_t>(length.first));
  if (frame.end) tokens.push_back(*frame.end);
  result.second = static_cast<int64_t>(tokens.size());
  if (!has_second) return result;
  if (frame.end && frame.parts_twice) tokens.push_back(*frame.end);
  if (!frame.end && frame.begin) tokens.push_back(*frame.begin);
  sample.parts.at(kSecond).append_to(tokens, static_cast<uint32_t>(length.second));
  if (frame.end) tokens.push_back(*frame.end);
  return result;
}

bool is_cut(const TokenSample& sample, const Frame& frame, int64_t most) {
  return lengths(sample, frame, most).is_cut;
}

}  // namespace pipeline::tasks::labels
