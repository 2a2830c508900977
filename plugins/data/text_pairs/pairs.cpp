#include "plugins/data/text_pairs/pairs.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/text_pairs/csv_reader.hpp"
#include "plugins/data/text_pairs/input.hpp"
#include "plugins/data/text_pairs/json_records.hpp"
#include "plugins/data/text_pairs/record_texts.hpp"

namespace pipeline::text_pairs {
namespace {

// Unicode's White_Space, and behind it the two characters without width that are not.
constexpr std::string_view kBlanks[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u0085",
                                        "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                        "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                        "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff"};

std::string list_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == 8) return text + ", ...";
    text += (i ? ", " : "") + strict_json::excerpt(names[i]);
  }
  return text.empty() ? "nothing" : text;
}

// Of the names, the one that differs from the wanted one in capitals and white space alone.
std::string alike(const std::vector<std::string>& names, const std::string& wanted) {
  const auto bare = [](const std::string& name) {
    std::string text;
    for (const char c : name)
      if (!is_blank({&c, 1})) text += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return text;
  };
  for (const std::string& name : names)
    if (bare(name) == bare(wanted)) return " (is it " + strict_json::excerpt(name) + "?)";
  return "";
}

// What both formats come to: checks a record's fields and hands the pair on, or counts why not.
class Collector {
 public:
  Collector(const Columns& columns, const std::function<void(Pair&&)>& sink, PairReport& report)
      : columns_(columns), sink_(sink), report_(report) {}

  void begin_record(uint64_t line) { report_.begin_record(line); }
  void drop(DropReason reason, std::string detail = {}, const std::string& subject = {}) {
    report_.add_drop(reason, std::move(detail), subject);
  }
  void drop_too_long(uint64_t limit) {
    drop(DropReason::kTooLong, "over " + std::to_string(limit) + " bytes");
  }
  void note(std::string text) { report_.notes.push_back(std::move(text)); }

  // `id` is absent if the file has none; `second` only where it is not required.
  void take(std::optional<std::string> id, std::string first, std::optional<std::string> second,
            std::optional<std::string> extra, uint64_t line) {
    const auto is_missing = [&](const std::string& name, std::string_view text) {
      if (!is_blank(text)) return false;
      drop(DropReason::kEmptyField, {},
           "\"" + name + (text.empty() ? "\" is empty" : "\" is nothing but white space"));
      return true;
    };
    if (is_missing(columns_.first, first)) return;
    if (columns_.second_required && is_missing(columns_.second, second.value_or(""))) return;
    if (id) {
      if (is_missing(columns_.id, *id)) return;
      if (!ids_.insert(hash128(*id)).second) return drop(DropReason::kDuplicateId, strict_json::excerpt(*id));
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

std::string kind_of(const JsonField& field) {
  switch (field.state) {
    case JsonField::kNull:
      return "null";
    case JsonField::kBool:
      return "true or false";
    case JsonField::kList:
      return "a list";
    case JsonField::kObject:
      return "an object";
    default:
      return "a number";
  }
}

void take_object(const RecordText& record, const Columns& columns, Collector& collector) {
  if (const size_t bad = first_invalid_utf8(record.text); bad != std::string_view::npos)
    return collector.drop(DropReason::kInvalidUtf8, "column " + std::to_string(bad + 1));
  auto parsed = pick_fields(record.text, {columns.first, columns.second, columns.id, columns.extra});
  if (parsed.state == JsonFields::kLoneSurrogate) return collector.drop(DropReason::kLoneSurrogate);
  if (parsed.state == JsonFields::kUnfinished && record.is_cut_off)
    return collector.drop(DropReason::kUnfinished);
  if (parsed.state == JsonFields::kUnfinished) parsed.detail = "it does not end in its line";
  if (parsed.state != JsonFields::kOk) return collector.drop(DropReason::kNotAnObject, parsed.detail);

  // False: the record is dropped.
  const auto check = [&](const std::string& name, const JsonField& field, bool required, bool is_id) {
    const bool may_be_absent =
        !required && (field.state == JsonField::kAbsent || field.state == JsonField::kNull);
    if (may_be_absent || field.state == JsonField::kText || (is_id && field.state == JsonField::kInteger))
      return true;
    if (field.state == JsonField::kAbsent) {
      std::string detail = "there is " + list_names(parsed.keys) + alike(parsed.keys, name);
      if (!parsed.lists.empty())
        detail += "; " + list_names(parsed.lists) + " is a list: if it has the records, write it alone";
      collector.drop(DropReason::kMissingField, detail, "no \"" + name + "\"");
    } else {
      collector.drop(DropReason::kWrongType, field.text.substr(0, 40),
                     "\"" + name + "\" is " + kind_of(field));
    }
    return false;
  };
  auto &first = parsed.fields[0], &second = parsed.fields[1], &id = parsed.fields[2],
       &extra = parsed.fields[3];
  if (!check(columns.first, first, true, false) ||
      !check(columns.second, second, columns.second_required, false) ||
      (!columns.extra.empty() && !check(columns.extra, extra, false, false)) ||
      !check(columns.id, id, columns.id_required, true))
    return;
  const auto text = [](JsonField& field) {
    const bool is_there = field.state == JsonField::kText || field.state == JsonField::kInteger;
    return is_there ? std::optional(std::move(field.text)) : std::nullopt;
  };
  collector.take(text(id), std::move(first.text), text(second),
                 columns.extra.empty() ? std::nullopt : text(extra), record.line);
}

// JSON, and what is like it.
void read_objects(const std::string& path, sources::Format format, const Columns& columns,
                  const ReadOptions& options, Collector& collector) {
  for_each_record(path, format,
                  {.max_bytes = options.max_record_bytes,
                   .columns = {columns.first, columns.second, columns.id, columns.extra},
                   .on_block = options.on_block},
                  [&](const RecordText& record) {
                    collector.begin_record(record.line);
                    if (record.is_too_long)
                      collector.drop_too_long(options.max_record_bytes);
                    else
                      take_object(record, columns, collector);
                    return true;
                  });
}

// Before any row is read.
void check_columns(const std::string& path, const Columns& columns) {
  const std::vector<std::string> names = parquet::ParquetFile(path).columns();
  for (const auto& [name, is_required] : {std::pair(columns.first, true),
                                          {columns.second, columns.second_required},
                                          {columns.id, columns.id_required}})
    if (is_required && std::ranges::find(names, name) == names.end())
      throw DataError(path + ": no column \"" + name + "\"; there is " + list_names(names) +
                      alike(names, name) +
                      ": name the columns in [task.data], by its keys that end in _column");
}

// Which of the record's fields are the pair's.
struct CsvPlaces {
  size_t first;
  std::optional<size_t> second, id, extra;
};

std::string where(const CsvReader& csv, const std::string& path) {
  return path + ":" + std::to_string(csv.line()) + ": ";
}

CsvPlaces find_columns(const CsvReader& header, const Columns& columns, const std::string& path) {
  if (header.too_long() || header.bad_quotes() || header.unfinished()) {
    throw DataError(where(header, path) +
                    "the header row cannot be read: it must hold the columns' names, quoted correctly");
  }
  const auto find = [&](const std::string& name, bool required) -> std::optional<size_t> {
    const auto& fields = header.fields();
    const auto place = std::find(fields.begin(), fields.end(), name);
    if (place == fields.end()) {
      if (!required) return std::nullopt;
      throw DataError(where(header, path) + "no column \"" + name + "\"; the header has " +
                      list_names(fields) + alike(fields, name) +
                      ": name the columns in [task.data], by its keys that end in _column");
    }
    if (std::find(place + 1, fields.end(), name) != fields.end()) {
      throw DataError(where(header, path) + "two columns are named \"" + name + "\": rename one of them");
    }
    return static_cast<size_t>(place - fields.begin());
  };
  return {*find(columns.first, true), find(columns.second, columns.second_required),
          find(columns.id, columns.id_required),
          columns.extra.empty() ? std::nullopt : find(columns.extra, false)};
}

std::string name_of_separator(char separator) {
  return separator == '\t' ? "tabs" : separator == ' ' ? "spaces" : std::string("\"") + separator + "\"";
}

// How the file's name and first lines say that it is written. Excel's first line may name the separator
// alone; and where the usual one does not lead to the columns in the header, another that does is meant.
struct CsvStart {
  CsvReader::Form form;
  bool names_separator = false;  // in a line of its own, before the header
};

CsvStart look_at_start(std::string_view text, char usual, const Columns& columns, Quotes quotes) {
  const auto take_line = [&] {
    text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
    const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
    text.remove_prefix(line.size());
    return line;
  };
  CsvStart start{.form = {.separator = usual}};
  std::string_view header = take_line();
  if (header.size() == 5 && header.starts_with("sep=")) {
    start = {.form = {.separator = header.back()}, .names_separator = true};
    header = take_line();
  } else {
    for (const char other : {usual, ';', '\t', ','}) {
      const auto names = header_names(header, other);
      const auto has = [&](const std::string& name) {
        return std::find(names.begin(), names.end(), name) != names.end();
      };
      if (!has(columns.first) || (columns.second_required && !has(columns.second))) continue;
      start.form.separator = other;
      break;
    }
  }
  start.form.quotes_are_text =
      quotes == Quotes::kText ||
      (quotes == Quotes::kAuto && start.form.separator == '\t' && !header.starts_with('"'));
  return start;
}

// Whether a program that quotes fields as CSV does has written this: all quotes within are doubled.
bool looks_quoted(std::string_view field) {
  if (field.size() < 4 || field.front() != '"' || field.back() != '"') return false;
  field = field.substr(1, field.size() - 2);
  size_t doubled = 0;
  for (size_t at = field.find('"'); at != field.npos; at = field.find('"', at + 2), ++doubled)
    if (at + 1 == field.size() || field[at + 1] != '"') return false;
  return doubled > 0;
}

// In TSV quotes are text unless somebody says otherwise. A file whose quotes have a meaning all the same
// would be misread: its fields have doubled quotes, or its records go over several lines.
class PlainQuotes {
 public:
  PlainQuotes(std::string path, size_t width) : path_(std::move(path)), width_(width) {}

  void check(const CsvReader& csv) {
    for (const std::string& field : csv.fields()) {
      if (!field.starts_with('"')) continue;
      ++fields_;
      if (csv.field_count() != width_ || looks_quoted(field))
        throw DataError(where(csv, path_) + "the field " + strict_json::excerpt(field) +
                        (csv.field_count() != width_
                             ? " begins with a quote, and there are " + std::to_string(csv.field_count()) +
                                   " fields instead of " + std::to_string(width_)
                             : " is quoted as CSV quotes fields") +
                        ": set task.data.quotes = \"csv\" if a program (pandas, Excel) has put quotes around "
                        "fields, or \"text\" if they are part of the texts");
    }
  }
  void tell(Collector& collector) const {
    if (fields_ > 0)
      collector.note(std::to_string(fields_) + (fields_ == 1 ? " field begins" : " fields begin") +
                     " with a quote, which is text in TSV; for quoted fields set task.data.quotes = \"csv\"");
  }

 private:
  std::string path_;
  size_t width_;
  uint64_t fields_ = 0;
};

void take_row(CsvReader& csv, const CsvPlaces& places, Collector& collector) {
  const auto field = [&](std::optional<size_t> place) {
    return place ? std::optional(std::move(csv.fields()[*place])) : std::nullopt;
  };
  auto id = field(places.id), first = field(places.first), second = field(places.second),
       extra = field(places.extra);
  for (const auto* text : {&id, &first, &second, &extra}) {
    const size_t bad = *text ? first_invalid_utf8(**text) : std::string::npos;
    if (bad == std::string::npos) continue;
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>((**text)[bad]));
    return collector.drop(DropReason::kInvalidUtf8, std::string("the byte ") + byte);
  }
  collector.take(std::move(id), std::move(*first), std::move(second), std::move(extra), csv.line());
}

void read_csv(Input& input, char usual, const Columns& columns, const ReadOptions& options,
              Collector& collector) {
  const auto [form, names_separator] = look_at_start(input.ahead(), usual, columns, options.quotes);
  if (form.separator != usual)
    collector.note("fields are separated by " + name_of_separator(form.separator) +
                   ", as its first line shows");
  CsvReader csv(input, form, options.max_record_bytes);
  if ((names_separator && !csv.next()) || !csv.next()) return;
  const auto places = find_columns(csv, columns, input.path());
  const size_t width = csv.field_count();
  PlainQuotes quotes(input.path(), width);
  const bool is_guess = form.quotes_are_text && options.quotes == Quotes::kAuto;
  while (csv.next()) {
    if (is_guess && !csv.too_long()) quotes.check(csv);
    collector.begin_record(csv.line());
    if (csv.too_long()) {
      collector.drop_too_long(options.max_record_bytes);
      continue;
    }
    if (csv.unfinished())
      collector.drop(DropReason::kUnfinished);
    else if (csv.bad_quotes())
      collector.drop(DropReason::kBadQuotes);
    else if (csv.field_count() != width)
      collector.drop(DropReason::kFieldCount,
                     std::to_string(csv.field_count()) + " instead of " + std::to_string(width));
    else
      take_row(csv, places, collector);
  }
  quotes.tell(collector);
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

Quotes quotes_named(std::string_view name) {
  return name == "csv" ? Quotes::kCsv : name == "text" ? Quotes::kText : Quotes::kAuto;
}

void read_pairs(const std::string& path, sources::Format format, const Columns& columns,
                const std::function<void(Pair&&)>& sink, PairReport& report, const ReadOptions& options) {
  std::vector<std::string> names{columns.first, columns.second, columns.id};
  if (!columns.extra.empty()) names.push_back(columns.extra);
  if (std::unordered_set(names.begin(), names.end()).size() < names.size())
    throw DataError(path + ": the columns " + list_names(names) +
                    " must be different ones: name them in [task.data], by its keys that end in _column");
  report = {};
  report.unit = unit_of(format);
  Collector collector(columns, sink, report);
  if (format == sources::Format::kParquet) check_columns(path, columns);
  if (format == sources::Format::kParquet || format == sources::Format::kJson)
    return read_objects(path, format, columns, options, collector);
  Input input(path, options.on_block);
  read_csv(input, format == sources::Format::kTsv ? '\t' : ',', columns, options, collector);
}

void read_pairs(const sources::SourceFiles& source, const Columns& columns,
                const std::function<void(Pair&&, const std::string& where)>& sink, SourceReport& report,
                const ReadOptions& options) {
  if (source.format == sources::Format::kTar)
    throw DataError(source.named + ": is a tar archive, which the task vlm reads: unpack it");
  report = {};
  uint64_t before = 0, done = 0;
  for (size_t i = 0; i < source.paths.size(); ++i) {
    ReadOptions with_progress = options;
    with_progress.on_block = [&](uint64_t bytes) {
      done = bytes;
      if (options.on_block) options.on_block(before + bytes);
    };
    const std::string name = source.name_of(i);
    report.files.push_back({source.paths[i], {}});
    read_pairs(
        source.paths[i], source.format, columns,
        [&](Pair&& pair) {
          if (!name.empty()) pair.id = name + ":" + pair.id;
          const std::string where =
              (name.empty() ? "" : name + ", ") + unit_of(source.format) + " " + std::to_string(pair.line);
          sink(std::move(pair), where);
        },
        report.files.back().report, with_progress);
    before += done;
  }
  report.require_pairs();
}

}  // namespace pipeline::text_pairs
