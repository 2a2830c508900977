#include "plugins/data/messages/conversation_file.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/records/csv_reader.hpp"
#include "plugins/data/records/json_records.hpp"
#include "plugins/data/records/record_texts.hpp"

namespace pipeline::messages {
namespace {

// Which columns of a table are read.
struct Table {
  Columns columns;
  bool has_system = false;
  std::string unread;  // a column that JSON may have, and this table does in vain

  bool operator==(const Table&) const = default;
};

Table table_of(const Columns& columns, const std::vector<std::string>& names) {
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  Table table{.columns = columns, .has_system = has("system") && !columns.answer.empty(), .unread = {}};
  for (const char* name : {"history", "tools", "messages", "conversations"})
    if (has(name)) table.unread = name;
  return table;
}

// Finds the columns by the names in the header row, whatever separates them.
Table look_at_table(const std::string& path, const TextOptions& options) {
  const std::string line = records::header_line(path);
  std::vector<std::string> most;
  for (const char separator : {',', '\t', ';'}) {
    std::vector<std::string> names = records::header_names(line, separator);
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

// How records::read_pairs() has read a source: its drops and notes become the report's.
void add_pair_report(const records::SourceReport& pairs, ReadReport& report) {
  for (const auto& [path, of_file] : pairs.files) {
    const std::string file = pairs.files.size() == 1 ? "" : path + ", ";
    report.records += of_file.records;
    for (const records::Drop& drop : of_file.drops)
      report.drop(drop.problem() + ": " + drop.remedy(),
                  file + of_file.unit + " " + std::to_string(drop.lines.at(0)), drop.count);
    for (const std::string& note : of_file.notes) report.notes += path + ": " + note + "\n";
  }
}

void read_table(const sources::SourceFiles& source, const TextOptions& options, Collector& collector,
                const ReadHooks& hooks) {
  Table table = look_at_table(source.paths.front(), options);
  for (const std::string& path : std::span(source.paths).subspan(1))
    if (look_at_table(path, options) != table)
      throw DataError(path + ": its header is read in another way than that of " + source.paths.front() +
                      ": name them as sources of their own ([[task.data.source]])");
  Columns& columns = table.columns;
  const bool is_text = columns.answer.empty();
  if (table.has_system && columns.context.empty()) {
    columns.context = "system";
  } else if (table.has_system) {
    table.unread = "system";
  }
  const auto make = [columns](records::Pair&& pair) {
    const bool is_system = columns.context == "system";
    Conversation one{.id = std::move(pair.id),
                     .images = {},
                     .turns = turns_of(columns, std::move(pair.first), is_system ? "" : pair.extra,
                                       std::move(pair.second))};
    if (is_system && !pair.extra.empty())
      one.turns.insert(one.turns.begin(), {.role = "system", .text = std::move(pair.extra)});
    return one;
  };
  read_pairs(source,
             {.first = columns.question,
              .second = is_text ? "answer of " + columns.question : columns.answer,
              .id = "id",
              .extra = columns.context,
              .second_required = options.answer_required && !is_text,
              .id_required = false},
             options.quotes, make, collector, hooks);
  if (!table.unread.empty())
    collector.report().notes +=
        source.named + ": its column \"" + table.unread + "\" is read in JSON alone\n";
}

// Pictures that are in their record have no name of their own.
void name_pictures_within(Conversation& conversation) {
  const bool is_one = conversation.images.size() == 1;
  for (size_t i = 0; i < conversation.images.size(); ++i)
    if (Picture& image = conversation.images[i]; !image.bytes.empty() && image.name.empty())
      image.name = "(" + (is_one ? "" : "picture " + std::to_string(i + 1) + " ") + "in the record " +
                   conversation.id + ")";
}

// A record as it is in its file.
struct JsonText {
  std::string text;
  bool is_too_long, is_cut_off;
  std::string id;  // where it has none of its own
  std::string file;
};

Conversation conversation_in(const JsonText& record, const Parse& parse) {
  if (record.is_too_long)
    throw DataError("longer than " + std::to_string(records::RecordOptions{}.max_bytes) + " bytes");
  const nlohmann::ordered_json object = parse_record(record.text);
  if (object.is_discarded())
    throw RecordProblem(record.is_cut_off ? "the file ends inside the record" : "not JSON in UTF-8",
                        records::pick_fields(record.text, {}).detail);
  Conversation conversation = parse(object);
  if (conversation.id.empty()) conversation.id = record.id;
  if (!record.file.empty()) conversation.id = record.file + ":" + conversation.id;
  name_pictures_within(conversation);
  return conversation;
}

// The columns that are read: those of a record's own, and those of its turns or texts.
std::vector<std::string> used_columns(const std::vector<std::string>& names, const Columns& wanted) {
  std::vector<std::string> used{
      "id", "image", "images", "system", "system_prompt", "tools", "chat_template_kwargs"};
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (const auto turns = std::ranges::find_if(kTurnKeys, has); turns != std::end(kTurnKeys)) {
    used.emplace_back(*turns);
  } else if (const auto columns = columns_among(names, wanted)) {
    used.insert(used.end(), {columns->question, columns->answer, columns->context, "history"});
  }
  return used;
}

constexpr size_t kBatchRecords = 128, kBatchBytes = size_t{256} << 10;

}  // namespace

Collector::Collector(Check check, Sink sink, ReadReport& report, unsigned threads)
    : Collector([check = std::move(check)](const Conversation& conversation,
                                           std::string&) { return check(conversation); },
                [sink = std::move(sink)](Conversation&& conversation, std::string&&) {
                  sink(std::move(conversation));
                },
                report, threads) {}

Collector::Collector(Pack pack, PackSink sink, ReadReport& report, unsigned threads)
    : pack_(std::move(pack)),
      sink_(std::move(sink)),
      report_(report),
      work_(
          threads,
          [this](std::vector<Record>&& records) {
            std::vector<Outcome> outcomes;
            for (Record& record : records) outcomes.push_back(outcome_of(std::move(record)));
            return outcomes;
          },
          [this](std::vector<Outcome>&& outcomes) { take(std::move(outcomes)); }) {}

Collector::Outcome Collector::outcome_of(Record&& record) const {
  Outcome outcome{.conversation = {}, .packed = {}, .problem = {}, .where = std::move(record.where)};
  try {
    outcome.conversation = record.make();
    outcome.problem = pack_(outcome.conversation, outcome.packed);
  } catch (const RecordProblem& problem) {
    outcome.problem = problem.what();
    if (!problem.detail().empty()) outcome.where += ": " + problem.detail();
  } catch (const DataError& error) {
    outcome.problem = error.what();
  }
  return outcome;
}

void Collector::take(std::vector<Outcome>&& outcomes) {
  for (Outcome& outcome : outcomes) {
    if (!outcome.problem.empty()) {
      report_.drop(outcome.problem, outcome.where);
      continue;
    }
    ++report_.used;
    words_for_none_ += static_cast<uint64_t>(
        std::ranges::count_if(outcome.conversation.turns, records::is_word_for_none, &Turn::text));
    sink_(std::move(outcome.conversation), std::move(outcome.packed));
  }
}

void Collector::add(Make make, std::string where, size_t bytes) {
  batch_.push_back({std::move(make), std::move(where)});
  batch_bytes_ += bytes;
  if (batch_.size() < kBatchRecords && batch_bytes_ < kBatchBytes) return;
  work_.add(std::exchange(batch_, {}));
  batch_bytes_ = 0;
}

void Collector::finish() {
  if (!batch_.empty()) work_.add(std::exchange(batch_, {}));
  work_.finish();
}

void read_objects(const sources::SourceFiles& source, const std::vector<std::string>& columns,
                  const Parse& parse, Collector& collector, const ReadHooks& hooks) {
  // The collector's threads may use it after an error has ended this function.
  const auto shared = std::make_shared<const Parse>(parse);
  const std::string unit = records::unit_of(source.format);
  uint64_t before = 0, done = 0;
  for (size_t i = 0; i < source.paths.size(); ++i, before += done) {
    const std::string& file = source.name_of(i);
    uint64_t number = 0;
    const auto visit = [&](const records::RecordText& record) {
      ++collector.report().records;
      const std::string id = std::to_string(++number);
      std::string where = file.empty() ? "" : file + ", ";
      where += (unit == "line" ? "record " + id + ", line " : unit + " ") + std::to_string(record.line);
      JsonText text{.text = std::string(record.text),
                    .is_too_long = record.is_too_long,
                    .is_cut_off = record.is_cut_off,
                    .id = id,
                    .file = file};
      collector.add([text = std::move(text), shared] { return conversation_in(text, *shared); },
                    std::move(where), record.text.size());
      return true;
    };
    records::for_each_record(source.paths[i], source.format,
                             {.columns = columns,
                              .on_block =
                                  [&](uint64_t bytes) {
                                    done = bytes;
                                    if (hooks.on_bytes) hooks.on_bytes(before + bytes);
                                  }},
                             visit);
  }
  collector.finish();
  if (const std::string note = records::note_of_words_for_none(collector.words_for_none()); !note.empty())
    collector.report().notes += source.named + ": " + note + "\n";
}

void read_pairs(const sources::SourceFiles& source, const records::Columns& columns, records::Quotes quotes,
                const std::function<Conversation(records::Pair&&)>& make, Collector& collector,
                const ReadHooks& hooks) {
  const auto shared = std::make_shared<const std::function<Conversation(records::Pair &&)>>(make);
  records::SourceReport pairs;
  records::read_pairs(source, columns,
                      [&](records::Pair&& pair, const std::string& where) {
                        const size_t bytes = pair.first.size() + pair.second.size();
                        collector.add(
                            [pair = std::move(pair), shared]() mutable {
                              Conversation conversation = (*shared)(std::move(pair));
                              name_pictures_within(conversation);
                              return conversation;
                            },
                            where, bytes);
                      },
                      pairs, {.quotes = quotes, .on_block = hooks.on_bytes});
  collector.finish();
  add_pair_report(pairs, collector.report());
}

std::string note_of_unused(const std::vector<std::string>& names, const Columns& wanted) {
  const std::vector<std::string> used = used_columns(names, wanted);
  std::string note = records::note_of_unused(names, used);
  const auto has = [](const std::vector<std::string>& list, const char* name) {
    return std::ranges::find(list, name) != list.end();
  };
  const auto is_left = [&](const char* name) { return has(names, name) && !has(used, name); };
  const bool is_text = has(used, "text");
  if (is_left("label") && !is_text)
    note +=
        ": where \"label\" says which answers are wanted (unpaired preference, as KTO takes it), all are "
        "learnt alike: take out those that are not, or use the task preference with loss \"kto\"";
  else if (is_left("label"))
    note += ": \"label\" is not learnt, only the text";
  if (is_left("chosen") && is_left("rejected"))
    note +=
        ": pairs of preference are what the task preference learns from: name \"chosen\" by "
        "task.data.answer_column to learn what was chosen";
  return note;
}

void read_texts(const sources::SourceFiles& source, const TextOptions& options, Collector& collector,
                const ReadHooks& hooks) {
  const std::vector<std::string> names = records::column_names(source.paths.front(), source.format,
                                                               record_keys(options.columns), hooks.on_bytes);
  if (const std::string note = note_of_unused(names, options.columns);
      options.answer_required && !note.empty())
    collector.report().notes += source.named + ": " + note + "\n";
  if (source.format == sources::Format::kJson || source.format == sources::Format::kParquet)
    read_objects(
        source, record_keys(options.columns),
        [columns = options.columns](const auto& object) { return conversation_of(object, columns); },
        collector, hooks);
  else
    read_table(source, options, collector, hooks);
}

}  // namespace pipeline::messages
