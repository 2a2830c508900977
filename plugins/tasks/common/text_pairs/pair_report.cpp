#include "plugins/tasks/common/text_pairs/pair_report.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "plugins/tasks/common/text_pairs/input.hpp"

namespace pipeline::text_pairs {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Drop, count, lines, detail)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PairReport, records, pairs, drops)

namespace {

constexpr size_t kLinesKept = 5;

struct Text {
  const char* problem;
  const char* remedy;
};

constexpr std::array<Text, kDropReasons> kTexts = {{
    {"not a JSON object", "write one JSON object a line"},
    {"not valid UTF-8", "convert the file to UTF-8 (iconv)"},
    {"a \\u escape is half of a surrogate pair", "write the character itself, or both halves"},
    {"a field is missing", "name the columns in [task.data], by its keys that end in _column"},
    {"a field is not text", "texts must be strings, an id a string or a whole number"},
    {"a field is empty", "fill it or remove the record"},
    {"the id was there before", "make ids unique, or leave the column out"},
    {"the record is too long", "split it, or raise [task.data] max_record_bytes"},
    {"not as many fields as the header has", "quote fields that contain the separator or a line break"},
    {"text after a closing quote", "double every quote inside a quoted field"},
    {"the file ends inside the record", "the file is cut off, or a quote is not closed: write it again"},
}};

std::string lines_text(const Drop& drop) {
  std::string text = drop.count == 1 ? "line " : "lines ";
  for (size_t i = 0; i < drop.lines.size(); ++i) text += (i ? ", " : "") + std::to_string(drop.lines[i]);
  if (drop.count > drop.lines.size()) text += ", ...";
  return text;
}

}  // namespace

void PairReport::add_drop(DropReason reason, uint64_t line, std::string detail) {
  auto& drop = drops[static_cast<size_t>(reason)];
  if (++drop.count == 1) drop.detail = std::move(detail);
  if (drop.lines.size() < kLinesKept) drop.lines.push_back(line);
}

std::string PairReport::table(const std::string& path) const {
  if (dropped() == 0) return "";
  std::string text =
      std::to_string(dropped()) + " of " + std::to_string(records) + " records of " + path + " were dropped";
  for (size_t r = 0; r < kDropReasons; ++r) {
    const auto& drop = drops[r];
    if (drop.count == 0) continue;
    text += "\n  " + std::to_string(drop.count) + ": " + kTexts[r].problem;
    if (!drop.detail.empty()) text += " (" + drop.detail + ")";
    text += ", " + lines_text(drop) + ": " + kTexts[r].remedy;
  }
  return text;
}

std::string PairReport::nothing_usable(const std::string& path) const {
  size_t first = kDropReasons;
  for (size_t r = 0; r < kDropReasons; ++r) {
    if (drops[r].count > 0 && (first == kDropReasons || drops[r].lines[0] < drops[first].lines[0])) first = r;
  }
  if (first == kDropReasons) return path + ": no records, only blank lines or a header: give it pairs";
  const auto& drop = drops[first];
  std::string text = path + ":" + std::to_string(drop.lines[0]) + ": " + kTexts[first].problem;
  if (!drop.detail.empty()) text += " (" + drop.detail + ")";
  return text + "; none of the " + std::to_string(records) +
         " records is a usable pair: " + kTexts[first].remedy;
}

std::string PairReport::to_json() const {
  return nlohmann::json(*this).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

PairReport PairReport::from_json(const std::string& text) try {
  return nlohmann::json::parse(text).get<PairReport>();
} catch (const nlohmann::json::exception& error) {
  throw DataError(std::string("the report of dropped records cannot be read: ") + error.what());
}

}  // namespace pipeline::text_pairs
