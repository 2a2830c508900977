#include "plugins/tasks/summarization/data.hpp"

#include <utility>

#include "plugins/data/files/ordered_work.hpp"
#include "plugins/data/records/record_texts.hpp"

namespace pipeline::tasks::summarization {
namespace {

using records::Pair;

constexpr size_t kBatchPairs = 256;
constexpr size_t kBatchBytes = size_t{1} << 20;

using Batch = std::vector<Pair>;

std::string note_of_unused(const PairSource& source, const std::function<void(uint64_t)>& on_block) {
  if (!source.columns.second_required) return "";
  const std::vector<std::string> used{source.columns.first, source.columns.second, source.columns.id};
  return records::note_of_unused(
      records::column_names(source.files.paths.front(), source.files.format, used, on_block), used);
}

}  // namespace

std::string PairSource::options() const {
  std::string result = "pairs";
  for (const std::string& text : {columns.first, columns.second, columns.id})
    result += "\n" + std::to_string(text.size()) + ":" + text;
  for (const uint64_t number : {uint64_t{columns.second_required}, uint64_t{columns.id_required},
                                max_record_bytes, static_cast<uint64_t>(quotes)})
    result += "\n" + std::to_string(number);
  return result;
}

void PairSource::each_text(const std::function<void(std::string_view)>& text,
                           const std::function<void(uint64_t)>& read) const {
  records::SourceReport report;
  records::read_pairs(files, columns,
                      [&](Pair&& pair, const std::string&) {
                        if (!part.takes(pair.first)) return;
                        text(pair.first);
                        text(pair.second);
                      },
                      report, {.max_record_bytes = max_record_bytes, .quotes = quotes, .on_block = read});
  sources::check_unchanged(files);
}

stores::TokenReport read_samples(const PairSource& source, const Encoder& encoder, const files::Hooks& hooks,
                                 const stores::TokenSink& add) {
  files::OrderedWork<Batch, std::vector<std::string>> work(
      hooks.threads,
      [&](Batch&& batch) {
        std::vector<std::string> samples;
        for (const Pair& pair : batch)
          samples.push_back(stores::pack_tokens({encoder.encode(pair.first), encoder.encode(pair.second)},
                                                pair.id, encoder.vocabulary_size));
        return samples;
      },
      [&](std::vector<std::string>&& samples) {
        hooks.throw_if_cancelled();
        for (std::string& sample : samples) add(std::move(sample));
      });
  Batch batch;
  size_t bytes = 0;
  const auto take = [&](Pair&& pair, const std::string&) {
    if (!source.part.takes(pair.first)) return;
    bytes += pair.first.size() + pair.second.size();
    batch.push_back(std::move(pair));
    if (batch.size() < kBatchPairs && bytes < kBatchBytes) return;
    work.add(std::exchange(batch, {}));
    bytes = 0;
  };
  const auto on_block = [&](uint64_t bytes_done) {
    hooks.throw_if_cancelled();
    hooks.report(bytes_done, source.files.bytes);
  };
  records::SourceReport report;
  records::read_pairs(source.files, source.columns, take, report,
                      {source.max_record_bytes, source.quotes, on_block});
  if (!batch.empty()) work.add(std::move(batch));
  work.finish();
  sources::check_unchanged(source.files);
  if (const std::string note = note_of_unused(source, [&](uint64_t) { on_block(source.files.bytes); });
      !note.empty())
    report.files.front().report.notes.push_back(note);
  stores::TokenReport result{
      .records = report.records(), .used = report.used(), .drops = report.table(), .notes = {}};
  for (const std::string& note : report.notes()) result.notes += note + "\n";
  return result;
}

}  // namespace pipeline::tasks::summarization
