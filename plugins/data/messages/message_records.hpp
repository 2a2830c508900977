// Records of conversations: what one looks like in JSON, and in the columns of a table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plugins/data/messages/conversation.hpp"

namespace pipeline::messages {

// The keys that hold turns: ShareGPT's and LLaVA's list of "from" and "value", and OpenAI's of "role" and
// "content".
inline constexpr std::string_view kTurnKeys[] = {"conversations", "messages"};

// Names of the texts of a record that has no list of turns. `context` belongs to the question and may be
// absent; without an answer the question is a text by itself.
struct Columns {
  std::string question, answer, context;

  bool operator==(const Columns&) const = default;
};

// The known pair of names that is among `names`: prompt and completion, instruction, input and output,
// question and answer, ..., or text. `wanted`, if set, comes before them.
std::optional<Columns> columns_among(const std::vector<std::string>& names, const Columns& wanted);
std::string known_columns();  // for messages

// All keys of a record that conversation_of() reads.
std::vector<std::string> record_keys(const Columns& wanted);

// A record parsed; is_discarded() where it is not JSON. Throws DataError for a key that stands twice.
nlohmann::ordered_json parse_record(std::string_view text);

// Whether an object has a list of turns.
bool has_turns(const nlohmann::ordered_json& object);

// The two functions below throw DataError, whose message is a reason for ReadReport, for an object of another
// form. Pictures are in the order of their marks: those that a part of a turn names, and at the other marks
// those of the record's "image" and "images", in order; any that are left come last.
Conversation conversation_of_turns(const nlohmann::ordered_json& object);
// A record with turns, or with texts under names that columns_among() knows.
Conversation conversation_of(const nlohmann::ordered_json& object, const Columns& wanted);

// A question and its answer, which may be missing, as turns; or a text by itself.
std::vector<Turn> turns_of(const Columns& columns, std::string question, const std::string& context,
                           std::string answer);

// The picture that a text names, or is: a path, or "data:image/png;base64,...". Throws DataError for a web
// address, and for base64 without that beginning.
Picture picture_named(const std::string& text);

// The pictures that a value names, or is: a path, "data:image/png;base64,...", an object of both, as Hugging
// Face's data sets have it, or a list of these. Throws DataError for anything else.
std::vector<Picture> pictures_of(const nlohmann::ordered_json& given, const char* key);

// The texts under a key: one, or a list of them or of objects that have one as "answer", as VQA's files do;
// none where there is nothing, and without those that are blank. Throws DataError for anything else.
std::vector<std::string> texts_under(const nlohmann::ordered_json& object, const std::string& key);

// The text under a key; empty where there is none, or null. Throws DataError for anything else.
std::string optional_text(const nlohmann::ordered_json& object, const std::string& key);

// "a list", "null", "text": for messages.
std::string kind_of(const nlohmann::ordered_json& value);

// The value under a key; nullptr where there is none, or null.
const nlohmann::ordered_json* find(const nlohmann::ordered_json& object, std::string_view key);

// The bytes within "data:image/png;base64,..." (RFC 2397). Throws DataError for anything else.
std::string bytes_within(const std::string& data);

// An object, or a list, as it is kept for the chat template; empty: it has nothing. Throws DataError where
// bytes that are no text are in it.
std::string packed(const nlohmann::ordered_json& members);

}  // namespace pipeline::messages
