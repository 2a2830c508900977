// What stands under the keys of a record. Errors are reasons for ReadReport.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pipeline::messages {

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
