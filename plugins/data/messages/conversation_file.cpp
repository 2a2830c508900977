#include "plugins/data/messages/conversation_file.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/text_pairs/csv_reader.hpp"
#include "plugins/data/text_pairs/json_records.hpp"

namespace pipeline::messages {
namespace {

// What of a table's columns is read.
struct Table {
  Columns columns;
  bool has_system = false;
  std::string unread;  // a column that JSON may have, and this table does in vain
};

Table table_of(const Columns& columns, const std::vector<std::string>& names) {
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  Table table{.columns = columns, .has_system = has("system") && !columns.answer.empty(), .unread = {}};
  for (const char* name : {"history", "tools", "messages", "conversations"})
    if (has(name)) table.unread = name;
  return table;
}

// By the names in the header row, whatever separates them.
Table look_at_table(const std::string& path, const TextOptions& options) {
  text_pairs::Input input(path, nullptr);
  std::string_view line = input.ahead();
  if (line.starts_with("sep=")) line.remove_prefix(std::min(line.find('\n') + 1, line.size()));
  line = line.substr(0, line.find_first_of("\r\n"));
  std::vector<std::string> most;
  for (const char separator : {',', '\t', ';'}) {
    std::vector<std::string> names = text_pairs::header_names(line, separator);
    if (const auto found = columns_among(names, options.columns)) return table_of(*found, names);
    if (names.size() > most.size()) most = std::move(names);
  }
  std::string has;
  for (const std::string& name : most) has += (has.empty() ? "\"" : "\", \"") + name;
  throw DataError(
      path + ": its header has the columns " + has + "\", must have " +
      (options.columns.question.empty() ? known_columns() : "\"" + options.columns.question + "\"") +
      ": name yours by task.data.question_column and answer_column");
}

void read_table(const std::string& path, const TextOptions& options, const Collector& collector,
                const ReadHooks& hooks) {
  Table table = look_at_table(path, options);
  Columns& columns = table.columns;
  const bool is_text = columns.answer.empty();
  if (table.has_system && columns.context.empty()) {
    columns.context = "system";
  } else if (table.has_system) {
    table.unread = "system";
  }
  text_pairs::PairReport pairs;
  text_pairs::read_pairs(
      path,
      {.first = columns.question,
       .second = is_text ? "answer of " + columns.question : columns.answer,
       .id = "id",
       .extra = columns.context,
       .second_required = options.answer_required && !is_text,
       .id_required = false},
      [&](text_pairs::Pair&& pair) {
        const bool is_system = columns.context == "system";
        Conversation one{.id = std::move(pair.id),
                         .image = {},
                         .turns = turns_of(columns, std::move(pair.first), is_system ? "" : pair.extra,
                                           std::move(pair.second))};
        if (is_system && !pair.extra.empty())
          one.turns.insert(one.turns.begin(), {.role = "system", .text = std::move(pair.extra)});
        collector.take(std::move(one), "line " + std::to_string(pair.line));
      },
      pairs, {.quotes = options.quotes, .on_block = hooks.on_bytes});
  add_pair_report(path, pairs, collector.report);
  if (!table.unread.empty())
    collector.report.notes += path + ": its column \"" + table.unread + "\" is read in JSON alone\n";
}

}  // namespace

bool file_has_turns(const std::string& path) {
  text_pairs::Input input(path, nullptr);
  text_pairs::JsonRecords records(input, text_pairs::ReadOptions{}.max_record_bytes);
  while (records.next()) {
    const auto found = text_pairs::pick_fields(records.text(), {std::begin(kTurnKeys), std::end(kTurnKeys)});
    if (found.state != text_pairs::JsonFields::kOk) continue;
    return std::any_of(found.fields.begin(), found.fields.end(), [](const text_pairs::JsonField& field) {
      return field.state != text_pairs::JsonField::kAbsent;
    });
  }
  return false;
}

void read_json_file(const std::string& path,
                    const std::function<Conversation(const nlohmann::ordered_json&)>& parse,
                    const Collector& collector, const ReadHooks& hooks) {
  ReadReport& report = collector.report;
  const uint64_t most_bytes = text_pairs::ReadOptions{}.max_record_bytes;
  text_pairs::Input input(path, hooks.on_bytes);
  text_pairs::JsonRecords records(input, most_bytes);
  while (records.next()) {
    ++report.records;
    const std::string where =
        "record " + std::to_string(report.records) + ", line " + std::to_string(records.line());
    if (records.too_long()) {
      report.drop("longer than " + std::to_string(most_bytes) + " bytes", where);
      continue;
    }
    try {
      const nlohmann::ordered_json object = parse_record(records.text());
      if (object.is_discarded()) {
        const std::string detail = text_pairs::pick_fields(records.text(), {}).detail;
        report.drop(records.is_cut_off() ? "the file ends inside the record" : "not JSON in UTF-8",
                    detail.empty() ? where : where + ": " + detail);
        continue;
      }
      Conversation conversation = parse(object);
      if (conversation.id.empty()) conversation.id = std::to_string(report.records);
      collector.take(std::move(conversation), where);
    } catch (const DataError& error) {
      report.drop(error.what(), where);
    }
  }
}

void add_pair_report(const std::string& path, const text_pairs::PairReport& pairs, ReadReport& report) {
  report.records = pairs.records;
  for (const text_pairs::Drop& drop : pairs.drops)
    report.drops[drop.problem() + ": " + drop.remedy()] = {drop.count,
                                                           "line " + std::to_string(drop.lines.at(0))};
  for (const std::string& note : pairs.notes) report.notes += path + ": " + note + "\n";
}

void read_text_file(const std::string& path, const TextOptions& options, const Collector& collector,
                    const ReadHooks& hooks) {
  collector.report = {};
  if (text_pairs::is_json(path))
    read_json_file(
        path, [&](const auto& object) { return conversation_of(object, options.columns); }, collector, hooks);
  else
    read_table(path, options, collector, hooks);
  collector.report.require_used(path);
}

}  // namespace pipeline::messages
