#include "plugins/data/messages/collector.hpp"

#include <algorithm>
#include <utility>

#include "plugins/data/records/pairs.hpp"

namespace pipeline::messages {
namespace {

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

}  // namespace pipeline::messages
