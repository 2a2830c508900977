// Where the records of a source become conversations.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plugins/data/files/ordered_work.hpp"
#include "plugins/data/messages/conversation.hpp"

namespace pipeline::messages {

// Why a record cannot be used, and what is to be said of the first such one.
class RecordProblem : public DataError {
 public:
  RecordProblem(const std::string& reason, std::string detail)
      : DataError(reason), detail_(std::move(detail)) {}
  const std::string& detail() const { return detail_; }

 private:
  std::string detail_;
};

// Makes conversations of records on several threads, and hands on those that can be used, in the records'
// order and on the thread that adds them. What becomes of the others is in the report.
class Collector {
 public:
  // Makes a conversation, or throws DataError with the reason where there is none. [any-thread]
  using Make = std::function<Conversation()>;
  // Why a conversation cannot be used; empty: it can. [any-thread]
  using Check = std::function<std::string(const Conversation&)>;
  using Sink = std::function<void(Conversation&&)>;
  // A Check that also packs each conversation that can be used, into bytes of the caller's.
  using Pack = std::function<std::string(const Conversation&, std::string& packed)>;
  using PackSink = std::function<void(Conversation&&, std::string&& packed)>;

  Collector(Check check, Sink sink, ReadReport& report, unsigned threads);
  Collector(Pack pack, PackSink sink, ReadReport& report, unsigned threads);

  // `where`: for people. `bytes`: the record's size while it waits.
  void add(Make make, std::string where, size_t bytes);
  // Waits until all are handed on.
  void finish();
  ReadReport& report() { return report_; }
  // Turns of the conversations handed on whose text is "nan", "None" or the like.
  uint64_t words_for_none() const { return words_for_none_; }

 private:
  struct Record {
    Make make;
    std::string where;
  };
  struct Outcome {
    Conversation conversation;
    std::string packed;
    std::string problem, where;  // why a record cannot be used, and where it is
  };
  Outcome outcome_of(Record&& record) const;
  void take(std::vector<Outcome>&& outcomes);

  const Pack pack_;
  const PackSink sink_;
  ReadReport& report_;
  std::vector<Record> batch_;
  size_t batch_bytes_ = 0;
  uint64_t words_for_none_ = 0;
  files::OrderedWork<std::vector<Record>, std::vector<Outcome>> work_;
};

}  // namespace pipeline::messages
