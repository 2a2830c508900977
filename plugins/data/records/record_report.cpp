#include "plugins/data/records/record_report.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "plugins/data/records/input.hpp"

namespace pipeline::records {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Drop, reason, subject, count, lines, records, detail)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RecordReport, unit, records, used, drops, notes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SourceReport::File, path, report)

namespace {

constexpr size_t kLinesKept = 5, kReasons = 13;

struct Text {
  const char* problem;
  const char* remedy;
};

constexpr std::array<Text, kReasons> kTexts = {{
    {"not a JSON object", "write one JSON object a line, or one array of them"},
    {"not valid UTF-8", "convert the file to UTF-8 (for Windows' Latin-1: iconv -f CP1252 -t UTF-8)"},
    {"a \\u escape is half of a surrogate pair", "write the character itself, or both halves"},
    {"a field is missing", "name the columns in [task.data], by its keys that end in _column"},
    {"a field is not text", "texts must be strings, an id a string or a whole number"},
    {"a field is empty", "fill it or remove the record"},
    {"the id was there before", "make ids unique, or leave the column out"},
    {"the record is too long", "split it, or raise [task.data] max_record_bytes"},
    {"not as many fields as the header has",
     "quote fields that contain the separator or a line break (in TSV with task.data.quotes = \"csv\")"},
    {"text after a closing quote",
     "double every quote inside a quoted field, or set task.data.quotes = \"text\" if quotes mean nothing"},
    {"the file ends inside the record", "the file is cut off, or a quote is not closed: write it again"},
    {"not a sequence of amino acids", "each must be letters of amino acids"},
    {"not valid UTF-8",
     "write it as text (for what is Latin-1, in Python: value.decode(\"latin-1\")), or leave the row out"},
}};

std::string lines_text(const Drop& drop, const std::string& unit) {
  std::string text = unit + (drop.count == 1 ? " " : "s ");
  for (size_t i = 0; i < drop.lines.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(drop.lines[i]);
    if (drop.records[i] > 0) text += " (record " + std::to_string(drop.records[i]) + ")";
  }
  if (drop.count > drop.lines.size()) text += ", ...";
  return text;
}

}  // namespace

std::string Drop::problem() const {
  const std::string text = subject.empty() ? kTexts.at(static_cast<size_t>(reason)).problem : subject;
  return detail.empty() ? text : text + " (" + detail + ")";
}

std::string Drop::remedy() const { return kTexts.at(static_cast<size_t>(reason)).remedy; }

void RecordReport::begin_record(uint64_t line) {
  shares_line_ = records > 0 && line == line_;
  line_ = line;
  ++records;
}

void RecordReport::add_drop(DropReason reason, std::string detail, const std::string& subject) {
  auto drop = std::find_if(drops.begin(), drops.end(),
                           [&](const Drop& one) { return one.reason == reason && one.subject == subject; });
  if (drop == drops.end())
    drop = drops.insert(
        drop,
        {.reason = reason, .subject = subject, .lines = {}, .records = {}, .detail = std::move(detail)});
  ++drop->count;
  if (drop->lines.size() == kLinesKept) return;
  drop->lines.push_back(line_);
  drop->records.push_back(shares_line_ ? records : 0);
}

std::string RecordReport::table(const std::string& path) const {
  if (dropped() == 0) return "";
  std::string text = std::to_string(dropped()) + " of " + std::to_string(records) + " records of " + path +
                     (dropped() == 1 ? " was dropped" : " were dropped");
  for (const Drop& drop : drops)
    text += "\n  " + std::to_string(drop.count) + ": " + drop.problem() + ", " + lines_text(drop, unit) +
            ": " + drop.remedy();
  return text;
}

// Drops are in the order of their first lines.
std::string RecordReport::nothing_usable(const std::string& path) const {
  if (drops.empty()) return path + ": no records, only blank lines or a header";
  const Drop& first = drops.front();
  const std::string where = unit == "line" ? ":" : ": " + unit + " ";
  return path + where + std::to_string(first.lines.at(0)) + ": " + first.problem() +
         (records == 1 ? "; this is the only record: "
                       : "; none of the " + std::to_string(records) + " records is usable: ") +
         first.remedy();
}

uint64_t SourceReport::sum(uint64_t RecordReport::*what) const {
  uint64_t count = 0;
  for (const File& file : files) count += file.report.*what;
  return count;
}

std::string SourceReport::table() const {
  constexpr size_t kMost = 8;
  std::string text;
  size_t shown = 0, more = 0;
  uint64_t dropped = 0;
  for (const File& file : files) {
    if (file.report.dropped() == 0) continue;
    if (shown == kMost) {
      ++more;
      dropped += file.report.dropped();
      continue;
    }
    text += (shown++ > 0 ? "\n" : "") + file.report.table(file.path);
  }
  if (more > 0)
    text +=
        "\n" + std::to_string(dropped) + " records of " + std::to_string(more) + " more files were dropped";
  return text;
}

std::vector<std::string> SourceReport::notes() const {
  std::vector<std::string> lines;
  for (const File& file : files)
    for (const std::string& note : file.report.notes) lines.push_back(file.path + ": " + note);
  return lines;
}

void SourceReport::require_some() const {
  if (used() > 0) return;
  const auto named = std::ranges::find_if(files, [](const File& file) { return file.report.records > 0; });
  const File& file = named == files.end() ? files.front() : *named;
  throw DataError(file.report.nothing_usable(file.path));
}

std::string SourceReport::to_json() const {
  return nlohmann::json(files).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

SourceReport SourceReport::from_json(const std::string& text) try {
  return {nlohmann::json::parse(text).get<std::vector<File>>()};
} catch (const nlohmann::json::exception&) {
  throw DataError("the report of dropped records cannot be read: make the cache again");
}

}  // namespace pipeline::records
