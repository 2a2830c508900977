// Files of conversations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "plugins/data/messages/conversation.hpp"
#include "plugins/data/messages/message_records.hpp"
#include "plugins/data/text_pairs/pairs.hpp"

namespace pipeline::messages {

struct ReadHooks {
  std::function<void(uint64_t)> on_bytes = {};  // read so far, often; may throw to stop
};

// Whether the first record of a JSON file that can be read has a list of turns.
bool file_has_turns(const std::string& path);

// Reads a JSON file, a list or an object a line, in order: parse() makes a conversation of each record, and
// may throw DataError with the reason why it cannot be used. Memory is that of a record.
void read_json_file(const std::string& path,
                    const std::function<Conversation(const nlohmann::ordered_json&)>& parse,
                    const Collector& collector, const ReadHooks& hooks = {});

// How text_pairs::read_pairs() has read a file: its drops and notes become the report's.
void add_pair_report(const std::string& path, const text_pairs::PairReport& pairs, ReadReport& report);

struct TextOptions {
  Columns columns = {};  // empty: one of those that columns_among() knows
  bool answer_required = true;
  text_pairs::Quotes quotes = text_pairs::Quotes::kAuto;
};

// Reads conversations without pictures: *.json, *.jsonl as conversation_of() does, and *.csv, *.tsv with the
// same columns. Records that cannot be used are dropped and counted. Throws DataError where the file cannot
// be read or has nothing usable.
void read_text_file(const std::string& path, const TextOptions& options, const Collector& collector,
                    const ReadHooks& hooks = {});

}  // namespace pipeline::messages
