#include "plugins/data/records/pairs.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/json/strict_json.hpp"
#include "plugins/data/records/record_texts.hpp"

namespace pipeline::records {
namespace {

// Unicode's White_Space, and behind it the two characters without width that are not.
constexpr std::string_view kBlanks[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u0085",
                                        "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                        "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                        "\u2029", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff"};

constexpr std::string_view kWordsForNone[] = {"nan", "NaN",  "-nan", "-NaN", "NA",   "<NA>", "N/A",
                                              "n/a", "#N/A", "None", "null", "NULL", "NaT"};

// Checks a record's fields and hands the pair on, or counts why not.
class Collector {
 public:
  Collector(const Columns& columns, const std::function<void(Pair&&)>& sink, RecordReport& report)
      : columns_(columns), sink_(sink), report_(report) {}

  void take(Row&& row) {
    auto &first = row.fields[0], &second = row.fields[1], &id = row.fields[2], &extra = row.fields[3];
    if (is_missing(columns_.first, *first)) return;
    if (columns_.second_required && is_missing(columns_.second, second.value_or(""))) return;
    if (id) {
      if (is_missing(columns_.id, *id)) return;
      if (!ids_.insert(hash128(*id)).second)
        return report_.add_drop(DropReason::kDuplicateId, strict_json::excerpt(*id));
    }
    const auto text = [](std::optional<std::string>& field) {
      return is_blank(field.value_or("")) ? std::string() : std::move(*field);
    };
    ++report_.used;
    // A label is no text, and its owner knows of such words.
    const bool are_texts = columns_.second_takes == Column::kText;
    for (const auto* field : are_texts ? std::vector{&first, &second} : std::vector{&first})
      words_for_none_ += is_word_for_none(field->value_or("")) ? 1 : 0;
    sink_({id ? std::move(*id) : std::to_string(report_.records), std::move(*first), text(second),
           text(extra), row.line});
  }
  uint64_t words_for_none() const { return words_for_none_; }

 private:
  bool is_missing(const std::string& name, std::string_view text) {
    if (!is_blank(text)) return false;
    report_.add_drop(DropReason::kEmptyField, {},
                     "\"" + name + (text.empty() ? "\" is empty" : "\" is nothing but white space"));
    return true;
  }

  const Columns& columns_;
  const std::function<void(Pair&&)>& sink_;
  RecordReport& report_;
  uint64_t words_for_none_ = 0;
  std::unordered_set<Hash128> ids_;
};

}  // namespace

bool is_word_for_none(std::string_view text) {
  return std::ranges::find(kWordsForNone, text) != std::end(kWordsForNone);
}

std::string note_of_words_for_none(uint64_t count) {
  if (count == 0) return "";
  return std::to_string(count) + (count == 1 ? " text is" : " texts are") +
         " \"nan\", \"None\" or the like, as programs write what is missing: used as text; if it is none, "
         "leave "
         "those records out";
}

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

void read_pairs(const std::string& path, sources::Format format, const Columns& columns,
                const std::function<void(Pair&&)>& sink, RecordReport& report, const ReadOptions& options) {
  Collector collector(columns, sink, report);
  read_table(
      path, format,
      {{.name = columns.first, .required = true, .takes = columns.first_takes},
       {.name = columns.second, .required = columns.second_required, .takes = columns.second_takes},
       {.name = columns.id, .required = columns.id_required, .takes = Column::kTextOrInteger},
       {.name = columns.extra, .required = columns.extra_required, .takes = columns.extra_takes}},
      [&](Row&& row) { collector.take(std::move(row)); }, report, options);
  if (const std::string note = note_of_words_for_none(collector.words_for_none()); !note.empty())
    report.notes.push_back(note);
}

void read_pairs(const sources::SourceFiles& source, const Columns& columns,
                const std::function<void(Pair&&, const std::string& where)>& sink, SourceReport& report,
                const ReadOptions& options) {
  if (source.format == sources::Format::kTar)
    throw DataError(source.named + ": is a tar archive, which the task vlm reads: unpack it");
  size_t file = 0;
  read_tables(source, options, report,
              [&](const std::string& path, RecordReport& of_file, const ReadOptions& with_progress) {
                const std::string& name = source.name_of(file++);
                read_pairs(
                    path, source.format, columns,
                    [&](Pair&& pair) {
                      if (!name.empty()) pair.id = name + ":" + pair.id;
                      const std::string where = (name.empty() ? "" : name + ", ") + unit_of(source.format) +
                                                " " + std::to_string(pair.line);
                      sink(std::move(pair), where);
                    },
                    of_file, with_progress);
              });
}

}  // namespace pipeline::records
