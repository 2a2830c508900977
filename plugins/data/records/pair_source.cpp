#include "plugins/data/records/pair_source.hpp"

#include "plugins/data/records/json_records.hpp"
#include "plugins/data/records/record_texts.hpp"

namespace pipeline::records {
namespace {

constexpr size_t kBatchPairs = 256;
constexpr size_t kBatchBytes = size_t{1} << 20;

std::string unused_columns(const PairSource& source, const std::function<void(uint64_t)>& on_block) {
  if (!source.columns.second_required) return "";
  const std::vector<std::string> used{source.columns.first, source.columns.second, source.columns.id,
                                      source.columns.extra};
  return note_of_unused(column_names(source.files.paths.front(), source.files.format, used, on_block), used);
}

}  // namespace

std::string PairSource::options() const {
  std::string result = "pairs";
  for (const std::string& text : {columns.first, columns.second, columns.id, columns.extra})
    result += "\n" + std::to_string(text.size()) + ":" + text;
  for (const uint64_t number :
       {uint64_t{columns.second_required}, static_cast<uint64_t>(columns.first_takes),
        static_cast<uint64_t>(columns.second_takes), static_cast<uint64_t>(columns.extra_takes),
        uint64_t{columns.id_required}, max_record_bytes, static_cast<uint64_t>(quotes),
        static_cast<uint64_t>(text_unit)})
    result += "\n" + std::to_string(number);
  return result;
}

void PairSource::each_text(const std::function<void(std::string_view)>& text,
                           const std::function<void(uint64_t)>& read) const {
  SourceReport report;
  read_pairs(
      files, columns,
      [&](Pair&& pair, const std::string&) {
        if (!part.takes(pair.first)) return;
        text(pair.first);
        for (const std::string& item : items_of(pair.second)) text(item);
      },
      report,
      {.max_record_bytes = max_record_bytes, .quotes = quotes, .text_unit = text_unit, .on_block = read});
  sources::check_unchanged(files);
}

stores::TokenReport PairSource::read(const files::Hooks& hooks,
                                     const std::function<void(std::vector<Pair>&&)>& take) const {
  std::vector<Pair> batch;
  size_t bytes = 0;
  const auto add = [&](Pair&& pair, const std::string&) {
    if (!part.takes(pair.first)) return;
    bytes += pair.first.size() + pair.second.size();
    batch.push_back(std::move(pair));
    if (batch.size() < kBatchPairs && bytes < kBatchBytes) return;
    take(std::exchange(batch, {}));
    bytes = 0;
  };
  const auto on_block = [&](uint64_t bytes_done) {
    hooks.throw_if_cancelled();
    hooks.report(bytes_done, files.bytes);
  };
  SourceReport report;
  read_pairs(
      files, columns, add, report,
      {.max_record_bytes = max_record_bytes, .quotes = quotes, .text_unit = text_unit, .on_block = on_block});
  if (!batch.empty()) take(std::move(batch));
  sources::check_unchanged(files);
  if (const std::string note = unused_columns(*this, [&](uint64_t) { on_block(files.bytes); }); !note.empty())
    report.files.front().report.notes.push_back(note);
  stores::TokenReport result{
      .records = report.records(), .used = report.used(), .drops = report.table(), .notes = {}};
  for (const std::string& note : report.notes()) result.notes += note + "\n";
  return result;
}

}  // namespace pipeline::records
