// Files of conversations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plugins/data/messages/collector.hpp"
#include "plugins/data/messages/conversation.hpp"
#include "plugins/data/messages/message_records.hpp"
#include "plugins/data/records/pairs.hpp"
#include "plugins/data/sources/source_files.hpp"

namespace pipeline::messages {

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
