#include "plugins/data/records/table.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/records/csv_reader.hpp"
#include "plugins/data/records/json_records.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/records/record_texts.hpp"
#include "plugins/data/sources/names.hpp"

namespace pipeline::records {
namespace {

std::string list_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == 8) return text + ", ...";
    text += (i ? ", " : "") + strict_json::excerpt(names[i]);
  }
  return text.empty() ? "nothing" : text;
}

// Asks whether the name that differs in capitals and white space alone is meant; empty: there is none.
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

std::string kind_of(JsonField::State state) {
  return state == JsonField::kNull                                  ? "null"
         : state == JsonField::kBool                                ? "true or false"
         : state == JsonField::kValues || state == JsonField::kList ? "a list"
         : state == JsonField::kObject                              ? "an object"
                                                                    : "a number";
}

std::string detail_of(const JsonField& field) {
  constexpr size_t kMost = 40;
  const bool is_number = field.state == JsonField::kInteger || field.state == JsonField::kNumber;
  return is_number ? field.text.substr(0, kMost) : "";
}

// Where the rows of a file go.
struct Rows {
  const std::vector<Column>& columns;
  const std::function<void(Row&&)>& sink;
  RecordReport& report;
  const ReadOptions& options;

  void drop(DropReason reason, std::string detail = {}, const std::string& subject = {}) const {
    report.add_drop(reason, std::move(detail), subject);
  }
  void drop_too_long() const {
    drop(DropReason::kTooLong, "over " + std::to_string(options.max_record_bytes) + " bytes");
  }
};

bool takes(const Column& column, JsonField::State state) {
  switch (state) {
    case JsonField::kText:
      return true;
    case JsonField::kInteger:
      return column.takes != Column::kText;
    case JsonField::kNumber:
    case JsonField::kBool:
      return column.takes >= Column::kValues;
    case JsonField::kValues:
      return column.takes >= Column::kLists;
    default:
      return false;
  }
}

void take_object(const RecordText& record, const Rows& rows) {
  if (const size_t bad = first_invalid_utf8(record.text); bad != std::string_view::npos)
    return rows.drop(DropReason::kInvalidUtf8, "column " + std::to_string(bad + 1));
  std::vector<std::string_view> names;
  std::vector<bool> by_item;
  for (const Column& column : rows.columns) {
    names.push_back(column.name);
    by_item.push_back(column.takes == Column::kWords);
  }
  auto parsed = pick_fields(record.text, names, kKeysShown, by_item);
  if (parsed.state == JsonFields::kLoneSurrogate) return rows.drop(DropReason::kLoneSurrogate);
  if (parsed.state == JsonFields::kUnfinished && record.is_cut_off) return rows.drop(DropReason::kUnfinished);
  if (parsed.state == JsonFields::kUnfinished) parsed.detail = "it does not end in its line";
  if (parsed.state != JsonFields::kOk) return rows.drop(DropReason::kNotAnObject, parsed.detail);

  Row row{.fields = {}, .line = record.line};
  for (size_t i = 0; i < rows.columns.size(); ++i) {
    const Column& column = rows.columns[i];
    JsonField& field = parsed.fields[i];
    row.fields.emplace_back();
    if (column.name.empty()) continue;
    if (takes(column, field.state)) {
      row.fields.back() = std::move(field.text);
      continue;
    }
    if ((!column.required || column.may_be_null) &&
        (field.state == JsonField::kAbsent || field.state == JsonField::kNull))
      continue;
    if (field.state == JsonField::kBytes)
      return rows.drop(DropReason::kBytes, {}, "\"" + column.name + "\" is bytes that are not UTF-8");
    if (field.state != JsonField::kAbsent)
      return rows.drop(DropReason::kWrongType, detail_of(field),
                       "\"" + column.name + "\" is " + kind_of(field.state));
    std::string detail = "there is " + list_names(parsed.keys) + alike(parsed.keys, column.name);
    if (!parsed.lists.empty())
      detail += "; " + list_names(parsed.lists) + " is a list: if it has the records, write it alone";
    return rows.drop(DropReason::kMissingField, detail, "no \"" + column.name + "\"");
  }
  rows.sink(std::move(row));
}

// Reads records of JSON, or rows of Parquet as JSON.
void read_objects(const std::string& path, sources::Format format, const Rows& rows) {
  RecordOptions options{
      .max_bytes = rows.options.max_record_bytes, .columns = {}, .on_block = rows.options.on_block};
  for (const Column& column : rows.columns) options.columns.push_back(column.name);
  for_each_record(path, format, options, [&](const RecordText& record) {
    rows.report.begin_record(record.line);
    if (record.is_too_long)
      rows.drop_too_long();
    else
      take_object(record, rows);
    return true;
  });
}

// Checks the columns before any row is read.
void check_columns(const std::string& path, const std::vector<Column>& columns, const std::string& remedy) {
  std::vector<std::string> names = parquet::ParquetFile(path).columns();
  for (const auto& [name, value] : sources::partition_of(path)) names.push_back(name);
  for (const Column& column : columns)
    if (column.required && std::ranges::find(names, column.name) == names.end())
      throw DataError(path + ": no column \"" + column.name + "\"; there is " + list_names(names) +
                      alike(names, column.name) + ": " + remedy);
}

std::string where(const CsvReader& csv, const std::string& path) {
  return path + ":" + std::to_string(csv.line()) + ": ";
}

// For a column: which of the record's fields it is, or what the file's partition says of all records.
struct Place {
  std::optional<size_t> field = {};
  std::optional<std::string> value = {};
};
using Places = std::vector<Place>;

Places find_columns(const CsvReader& header, const std::vector<Column>& columns, const std::string& path,
                    const std::string& remedy) {
  if (header.too_long() || header.bad_quotes() || header.unfinished()) {
    throw DataError(where(header, path) +
                    "the header row cannot be read: it must hold the columns' names, quoted correctly");
  }
  Places places;
  const auto partition = sources::partition_of(path);
  for (const Column& column : columns) {
    const auto& fields = header.fields();
    const auto place = column.name.empty() ? fields.end() : std::ranges::find(fields, column.name);
    places.emplace_back();
    if (place == fields.end()) {
      for (const auto& [key, value] : partition)
        if (key == column.name) places.back().value = value;
      if (!column.required || places.back().value) continue;
      throw DataError(where(header, path) + "no column \"" + column.name + "\"; the header has " +
                      list_names(fields) + alike(fields, column.name) + ": " + remedy);
    }
    if (std::find(place + 1, fields.end(), column.name) != fields.end())
      throw DataError(where(header, path) + "two columns are named \"" + column.name +
                      "\": rename one of them");
    places.back().field = static_cast<size_t>(place - fields.begin());
  }
  return places;
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

CsvStart look_at_start(const Input& input, std::string_view text, char usual,
                       const std::vector<Column>& columns, Quotes quotes) {
  const auto partition = sources::partition_of(input.path());
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
        return std::find(names.begin(), names.end(), name) != names.end() ||
               std::ranges::any_of(partition, [&](const auto& one) { return one.first == name; });
      };
      if (!std::ranges::all_of(columns, [&](const Column& one) { return !one.required || has(one.name); }))
        continue;
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
  void tell(RecordReport& report) const {
    if (fields_ > 0)
      report.notes.push_back(
          std::to_string(fields_) + (fields_ == 1 ? " field begins" : " fields begin") +
          " with a quote, which is text in TSV; for quoted fields set task.data.quotes = \"csv\"");
  }

 private:
  std::string path_;
  size_t width_;
  uint64_t fields_ = 0;
};

// Counts a drop where it is not.
bool is_utf8(std::string_view text, const Rows& rows) {
  const size_t bad = first_invalid_utf8(text);
  if (bad == std::string::npos) return true;
  char byte[3];
  std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(text[bad]));
  rows.drop(DropReason::kInvalidUtf8, std::string("the byte ") + byte);
  return false;
}

void take_row(CsvReader& csv, const Places& places, const Rows& rows) {
  Row row{.fields = {}, .line = csv.line()};
  for (const Place& place : places) {
    row.fields.push_back(place.value);
    if (!place.field) continue;
    std::string& field = csv.fields()[*place.field];
    if (!is_utf8(field, rows)) return;
    row.fields.back() = std::move(field);
  }
  rows.sink(std::move(row));
}

void read_csv(Input& input, char usual, const Rows& rows) {
  const auto [form, names_separator] =
      look_at_start(input, input.ahead(), usual, rows.columns, rows.options.quotes);
  if (form.separator != usual)
    rows.report.notes.push_back("fields are separated by " + name_of_separator(form.separator) +
                                ", as its first line shows");
  CsvReader csv(input, form, rows.options.max_record_bytes);
  if ((names_separator && !csv.next()) || !csv.next()) return;
  const Places places = find_columns(csv, rows.columns, input.path(), rows.options.remedy);
  const size_t width = csv.field_count();
  PlainQuotes quotes(input.path(), width);
  const bool is_guess = form.quotes_are_text && rows.options.quotes == Quotes::kAuto;
  while (csv.next()) {
    if (is_guess && !csv.too_long()) quotes.check(csv);
    rows.report.begin_record(csv.line());
    if (csv.too_long()) {
      rows.drop_too_long();
      continue;
    }
    if (csv.unfinished())
      rows.drop(DropReason::kUnfinished);
    else if (csv.bad_quotes())
      rows.drop(DropReason::kBadQuotes);
    else if (csv.field_count() != width)
      rows.drop(DropReason::kFieldCount,
                std::to_string(csv.field_count()) + " instead of " + std::to_string(width));
    else
      take_row(csv, places, rows);
  }
  quotes.tell(rows.report);
}

void read_plain(Input& input, const Rows& rows) {
  PlainText text(input, rows.options.text_unit, rows.options.max_record_bytes);
  while (text.next()) {
    rows.report.begin_record(text.line());
    if (text.too_long()) {
      rows.drop_too_long();
    } else if (is_utf8(text.text(), rows)) {
      Row row{.fields = std::vector<std::optional<std::string>>(rows.columns.size()), .line = text.line()};
      row.fields.front() = std::move(text.text());
      rows.sink(std::move(row));
    }
  }
}

}  // namespace

Quotes quotes_named(std::string_view name) {
  return name == "csv" ? Quotes::kCsv : name == "text" ? Quotes::kText : Quotes::kAuto;
}

void read_table(const std::string& path, sources::Format format, const std::vector<Column>& columns,
                const std::function<void(Row&&)>& sink, RecordReport& report, const ReadOptions& options) {
  std::vector<std::string> names;
  for (const Column& column : columns)
    if (!column.name.empty()) names.push_back(column.name);
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end())
    throw DataError(path + ": the columns " + list_names(names) +
                    " must be different ones: " + options.remedy);
  report = {};
  report.unit = unit_of(format);
  const Rows rows{.columns = columns, .sink = sink, .report = report, .options = options};
  if (format == sources::Format::kParquet) check_columns(path, columns, options.remedy);
  if (format == sources::Format::kParquet || format == sources::Format::kJson)
    return read_objects(path, format, rows);
  Input input(path, options.on_block);
  if (format == sources::Format::kText) return read_plain(input, rows);
  read_csv(input, format == sources::Format::kTsv ? '\t' : ',', rows);
}

void read_tables(const sources::SourceFiles& source, const ReadOptions& options, SourceReport& report,
                 const std::function<void(const std::string& path, RecordReport& report,
                                          const ReadOptions& options)>& read) {
  report = {};
  uint64_t before = 0, done = 0;
  for (const std::string& path : source.paths) {
    ReadOptions with_progress = options;
    with_progress.on_block = [&](uint64_t bytes) {
      done = bytes;
      if (options.on_block) options.on_block(before + bytes);
    };
    report.files.push_back({path, {}});
    read(path, report.files.back().report, with_progress);
    before += done;
  }
  report.require_some();
}

}  // namespace pipeline::records
