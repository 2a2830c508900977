// Files of conversations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plugins/data/files/ordered_work.hpp"
#include "plugins/data/messages/conversation.hpp"
#include "plugins/data/messages/message_records.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/sources/source_files.hpp"

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

struct ReadHooks {
  std::function<void(uint64_t)> on_bytes = {};  // read so far, often; may throw to stop
  unsigned threads = 1;                         // that make conversations of records
};

// Makes a conversation of a record, or throws DataError with the reason why it cannot be used. [any-thread]
using Parse = std::function<Conversation(const nlohmann::ordered_json&)>;

// Reads JSON files, a list or an object a line, or Parquet files, of which these columns, in order. Memory is
// that of a few hundred records.
void read_objects(const sources::SourceFiles& source, const std::vector<std::string>& columns,
                  const Parse& parse, Collector& collector, const ReadHooks& hooks);

// Reads pairs and makes a conversation of each. [any-thread]
void read_pairs(const sources::SourceFiles& source, const records::Columns& columns, records::Quotes quotes,
                const std::function<Conversation(records::Pair&&)>& make, Collector& collector,
                const ReadHooks& hooks);

// A note for people on the columns of a record that conversation_of() does not read, and on what follows
// where others learn from them. Empty: it reads all.
std::string note_of_unused(const std::vector<std::string>& names, const Columns& wanted);

struct TextOptions {
  Columns columns = {};  // empty: one of those that columns_among() knows
  bool answer_required = true;
  records::Quotes quotes = records::Quotes::kAuto;
};

// Reads conversations without pictures: JSON and Parquet as conversation_of() does, and other tables with the
// same columns. Records that cannot be used are dropped and counted. Throws DataError where a file cannot be
// read.
void read_texts(const sources::SourceFiles& source, const TextOptions& options, Collector& collector,
                const ReadHooks& hooks);

}  // namespace pipeline::messages
