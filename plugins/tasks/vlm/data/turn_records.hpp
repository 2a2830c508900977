// Records with turns, in JSON: what such a record looks like in any kind of file.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "plugins/tasks/vlm/data/conversation.hpp"

namespace pipeline::vlm {

// The keys that hold turns: LLaVA's list of "from" and "value", and OpenAI's of "role" and "content".
inline constexpr std::string_view kTurnKeys[] = {"conversations", "messages"};

// A record parsed; is_discarded() where it is not JSON. Throws DataError for a key that stands twice.
nlohmann::json parse_record(std::string_view text);

// Whether an object has turns rather than a caption.
bool has_turns(const nlohmann::json& object);

// Throws DataError, whose message is a reason for ReadReport, for an object of another form.
Conversation conversation_of_turns(const nlohmann::json& object);

// The text under a key; empty where there is none, or null. Throws DataError for anything else.
std::string optional_text(const nlohmann::json& object, const std::string& key);

}  // namespace pipeline::vlm
