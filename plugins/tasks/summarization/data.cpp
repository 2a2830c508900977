#include "plugins/tasks/summarization/data.hpp"

#include <algorithm>
#include <utility>

#include "plugins/data/files/ordered_work.hpp"
#include "plugins/data/records/record_texts.hpp"

namespace pipeline::tasks::summarization {
namespace {

using records::Pair;
using stores::TokenView;

constexpr size_t kBatchPairs = 256;
constexpr size_t kBatchBytes = size_t{1} << 20;

using Batch = std::vector<Pair>;

std::string note_of_unused(const PairSource& source, const std::function<void(uint64_t)>& on_block) {
  if (!source.columns.second_required) return "";
  const std::vector<std::string> used{source.columns.first, source.columns.second, source.columns.id};
  return records::note_of_unused(
      records::column_names(source.files.paths.front(), source.files.format, used, on_block), used);
}

const TokenView& document_of(const TokenSample& sample) { return sample.parts.at(0); }
const TokenView& summary_of(const TokenSample& sample) { return sample.parts.at(1); }

struct Lengths {
  int64_t fixed, document, summary;  // fixed: start and separator
  bool whole_summary;                // so that it is followed by the end of text
};

Lengths lengths(const TokenSample& sample, const SequenceRules& rules) {
  const auto fixed = rules.fixed(), size = static_cast<int64_t>(summary_of(sample).size());
  const int64_t summary =
      std::min({size, rules.max_summary_tokens, std::max<int64_t>(rules.max_tokens - fixed, 0)});
  const int64_t room = std::max<int64_t>(rules.max_tokens - fixed - summary, 0);
  return {fixed, std::min(static_cast<int64_t>(document_of(sample).size()), room), summary, summary == size};
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

Sequence make_sequence(const TokenSample& sample, const SequenceRules& rules) {
  const Lengths length = lengths(sample, rules);
  Sequence result{.tokens = rules.start, .targets = {}};
  document_of(sample).append_to(result.tokens, static_cast<uint32_t>(length.document));
  result.tokens.insert(result.tokens.end(), rules.separator.begin(), rules.separator.end());
  summary_of(sample).append_to(result.tokens, static_cast<uint32_t>(length.summary));

  const size_t size = result.tokens.size();
  result.targets.assign(size, -1);
  if (summary_of(sample).size() == 0) return result;
  // The separator's last token predicts the summary's first.
  const size_t first = rules.loss_on_all ? 0 : static_cast<size_t>(length.fixed + length.document) - 1;
  for (size_t i = first; i + 1 < size; ++i) result.targets[i] = result.tokens[i + 1];
  if (length.whole_summary) result.targets[size - 1] = rules.end_of_text;
  return result;
}

std::vector<int64_t> make_prompt(const TokenSample& sample, const SequenceRules& rules, int64_t new_tokens) {
  const auto fixed = rules.fixed();
  const int64_t room = rules.max_tokens - fixed - new_tokens;
  std::vector<int64_t> prompt = rules.start;
  const int64_t kept = std::min(static_cast<int64_t>(document_of(sample).size()), room);
  document_of(sample).append_to(prompt, static_cast<uint32_t>(kept));
  prompt.insert(prompt.end(), rules.separator.begin(), rules.separator.end());
  return prompt;
}

int64_t longest_writing(int64_t max_tokens, int64_t max_summary_tokens, int64_t separator_tokens) {
  const int64_t room = max_tokens - separator_tokens,
                learnt = std::max<int64_t>(room - max_summary_tokens, 1);
  return room - (learnt + 1) / 2;
}

}  // namespace pipeline::tasks::summarization
