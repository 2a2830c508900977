#include "plugins/tasks/common/text_pairs/pairs.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/base/utf8.hpp"
#include "plugins/tasks/common/text_pairs/input.hpp"
#include "plugins/tasks/common/text_pairs/records.hpp"

namespace pipeline::text_pairs {
namespace {

// Unicode's White_Space, and behind it the two characters without width that are not.
constexpr std::string_view kBlanks[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u0085",
                                        "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                        "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                        "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff"};

enum class Format { kJsonl, kCsv, kTsv };

Format format_of(const std::string& path) {
  std::string name = path;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const auto* suffix : {".jsonl", ".ndjson", ".json"}) {
    if (name.ends_with(suffix)) return Format::kJsonl;
  }
  if (name.ends_with(".csv")) return Format::kCsv;
  if (name.ends_with(".tsv")) return Format::kTsv;
  throw DataError(
      path +
      ": the kind of file cannot be told from its name: it must end in .jsonl, .ndjson, .json, .csv or .tsv");
}

std::string list_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == 8) return text + ", ...";
    text += (i ? ", \"" : "\"") + names[i] + "\"";
  }
  return text.empty() ? "nothing" : text;
}

// What both formats come to: checks a record's fields and hands the pair on, or counts why not.
class Collector {
 public:
  Collector(const Columns& columns, const std::function<void(Pair&&)>& sink, PairReport& report)
      : columns_(columns), sink_(sink), report_(report) {}

  void begin_record() { ++report_.records; }
  void drop(DropReason reason, uint64_t line, std::string detail = {}) {
    report_.add_drop(reason, line, std::move(detail));
  }

  // `id` is absent if the file has none; `second` only where it is not required.
  void take(std::optional<std::string> id, std::string first, std::optional<std::string> second,
            std::optional<std::string> extra, uint64_t line) {
    if (is_blank(first)) return drop(DropReason::kEmptyField, line, columns_.first);
    if (columns_.second_required && is_blank(second.value_or("")))
      return drop(DropReason::kEmptyField, line, columns_.second);
    if (id) {
      if (is_blank(*id)) return drop(DropReason::kEmptyField, line, columns_.id);
      if (!ids_.insert(hash128(*id)).second)
        return drop(DropReason::kDuplicateId, line, "\"" + id->substr(0, 64) + "\"");
    }
    const auto text = [](std::optional<std::string>& field) {
      return is_blank(field.value_or("")) ? std::string() : std::move(*field);
    };
    ++report_.pairs;
    sink_({id ? std::move(*id) : std::to_string(report_.records), std::move(first), text(second), text(extra),
           line});
  }

 private:
  struct FirstHalf {
    size_t operator()(const Hash128& hash) const { return hash.low; }
  };

  const Columns& columns_;
  const std::function<void(Pair&&)>& sink_;
  PairReport& report_;
  std::unordered_set<Hash128, FirstHalf> ids_;
};

std::optional<DropReason> reason_of(JsonFields::State state, bool has_line_end) {
  switch (state) {
    case JsonFields::kOk:
      return std::nullopt;
    case JsonFields::kLoneSurrogate:
      return DropReason::kLoneSurrogate;
    case JsonFields::kUnfinished:
      return has_line_end ? DropReason::kNotAnObject : DropReason::kUnfinished;
    case JsonFields::kNotAnObject:
      return DropReason::kNotAnObject;
  }
  return DropReason::kNotAnObject;
}

void take_line(const LineReader& lines, const Columns& columns, Collector& collector) {
  const uint64_t line = lines.number();
  if (const size_t bad = first_invalid_utf8(lines.line()); bad != std::string_view::npos) {
    return collector.drop(DropReason::kInvalidUtf8, line, "column " + std::to_string(bad + 1));
  }
  auto parsed = pick_fields(lines.line(), {columns.first, columns.second, columns.id, columns.extra});
  if (const auto reason = reason_of(parsed.state, lines.has_line_end()))
    return collector.drop(*reason, line, parsed.detail);

  auto &first = parsed.fields[0], &second = parsed.fields[1], &id = parsed.fields[2],
       &extra = parsed.fields[3];
  const auto absent = [](const auto& field) {
    return field.state == JsonField::kAbsent || field.state == JsonField::kNull;
  };
  const auto missing = [&](const std::string& name) {
    collector.drop(DropReason::kMissingField, line,
                   "no \"" + name + "\"; there is " + list_names(parsed.keys));
  };
  const auto wrong = [&](const std::string& name) { collector.drop(DropReason::kWrongType, line, name); };
  if (first.state == JsonField::kAbsent) return missing(columns.first);
  if (first.state != JsonField::kText) return wrong(columns.first);
  const bool no_second = absent(second), no_extra = columns.extra.empty() || absent(extra);
  if (columns.second_required && second.state == JsonField::kAbsent) return missing(columns.second);
  if (second.state != JsonField::kText && (columns.second_required || !no_second))
    return wrong(columns.second);
  if (!no_extra && extra.state != JsonField::kText) return wrong(columns.extra);
  const bool no_id = absent(id);
  if (columns.id_required && no_id) return missing(columns.id);
  if (!no_id && id.state != JsonField::kText && id.state != JsonField::kInteger) return wrong(columns.id);
  collector.take(no_id ? std::nullopt : std::optional(std::move(id.text)), std::move(first.text),
                 no_second ? std::nullopt : std::optional(std::move(second.text)),
                 no_extra ? std::nullopt : std::optional(std::move(extra.text)), line);
}

void read_jsonl(Input& input, const Columns& columns, const ReadOptions& options, Collector& collector) {
  LineReader lines(input, options.max_record_bytes);
  while (lines.next()) {
    if (!lines.too_long() && is_blank(lines.line())) continue;
    collector.begin_record();
    if (lines.too_long()) {
      collector.drop(DropReason::kTooLong, lines.number(),
                     "over " + std::to_string(options.max_record_bytes) + " bytes");
    } else {
      take_line(lines, columns, collector);
    }
  }
}

// Which of the record's fields are the pair's.
struct CsvPlaces {
  size_t first;
  std::optional<size_t> second, id, extra;
};

CsvPlaces find_columns(const CsvReader& header, const Columns& columns, const std::string& path) {
  const std::string where = path + ":" + std::to_string(header.line()) + ": ";
  if (header.too_long() || header.bad_quotes() || header.unfinished()) {
    throw DataError(where +
                    "the header row cannot be read: it must hold the columns' names, quoted correctly");
  }
  const auto find = [&](const std::string& name, bool required) -> std::optional<size_t> {
    const auto& fields = header.fields();
    const auto place = std::find(fields.begin(), fields.end(), name);
    if (place == fields.end()) {
      if (!required) return std::nullopt;
      throw DataError(where + "no column \"" + name + "\"; the header has " + list_names(fields) +
                      ": name the columns in [task.data], by its keys that end in _column");
    }
    if (std::find(place + 1, fields.end(), name) != fields.end()) {
      throw DataError(where + "two columns are named \"" + name + "\": rename one of them");
    }
    return static_cast<size_t>(place - fields.begin());
  };
  return {*find(columns.first, true), find(columns.second, columns.second_required),
          find(columns.id, columns.id_required),
          columns.extra.empty() ? std::nullopt : find(columns.extra, false)};
}

void read_csv(Input& input, char separator, const Columns& columns, const ReadOptions& options,
              Collector& collector) {
  CsvReader csv(input, separator, options.max_record_bytes);
  if (!csv.next()) return;
  const auto places = find_columns(csv, columns, input.path());
  const size_t width = csv.field_count();
  while (csv.next()) {
    collector.begin_record();
    const uint64_t line = csv.line();
    if (csv.too_long()) {
      collector.drop(DropReason::kTooLong, line,
                     "over " + std::to_string(options.max_record_bytes) + " bytes");
    } else if (csv.unfinished()) {
      collector.drop(DropReason::kUnfinished, line);
    } else if (csv.bad_quotes()) {
      collector.drop(DropReason::kBadQuotes, line);
    } else if (csv.field_count() != width) {
      collector.drop(DropReason::kFieldCount, line,
                     std::to_string(csv.field_count()) + " instead of " + std::to_string(width));
    } else {
      const auto field = [&](std::optional<size_t> place) {
        return place ? std::optional(std::move(csv.fields()[*place])) : std::nullopt;
      };
      auto id = field(places.id), first = field(places.first), second = field(places.second),
           extra = field(places.extra);
      const auto valid = [](const auto& text) {
        return !text || first_invalid_utf8(*text) == std::string_view::npos;
      };
      if (!valid(id) || !valid(first) || !valid(second) || !valid(extra)) {
        collector.drop(DropReason::kInvalidUtf8, line);
        continue;
      }
      collector.take(std::move(id), std::move(*first), std::move(second), std::move(extra), line);
    }
  }
}

}  // namespace

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    size_t length = 0;
    for (const auto blank : kBlanks) {
      if (text.starts_with(blank)) length = blank.size();
    }
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void read_pairs(const std::string& path, const Columns& columns, const std::function<void(Pair&&)>& sink,
                PairReport& report, const ReadOptions& options) {
  std::vector<std::string> names{columns.first, columns.second, columns.id};
  if (!columns.extra.empty()) names.push_back(columns.extra);
  if (std::unordered_set(names.begin(), names.end()).size() < names.size())
    throw DataError(path + ": the columns " + list_names(names) +
                    " must be different ones: name them in [task.data], by its keys that end in _column");
  report = {};
  const Format format = format_of(path);
  Input input(path, options.on_block);
  Collector collector(columns, sink, report);
  if (format == Format::kJsonl) {
    read_jsonl(input, columns, options, collector);
  } else {
    read_csv(input, format == Format::kTsv ? '\t' : ',', columns, options, collector);
  }
  if (report.pairs == 0) throw DataError(report.nothing_usable(path));
}

}  // namespace pipeline::text_pairs
