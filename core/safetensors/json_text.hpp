#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace pipeline::safetensors {

// Parses JSON and refuses what the library lets pass: a key that stands twice in one object, and deep nesting.
// Throws Error with `context`, the byte and the cause.
nlohmann::json parse_json(std::string_view text, const std::string& context);

// A value as it may stand in an error message: JSON, shortened, always valid UTF-8.
std::string json_excerpt(const nlohmann::json& value);

}  // namespace pipeline::safetensors
