#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

// JSON that comes from elsewhere: model files, tokenizer files, indexes.
namespace pipeline::strict_json {

class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Parses JSON and also refuses what the library lets pass: a key that stands twice in one object, and deep
// nesting. Throws JsonError with `context` (the file) and the byte or the cause.
nlohmann::json parse(std::string_view text, const std::string& context);

// Parses as parse() does, with an object's keys in their order.
nlohmann::ordered_json parse_ordered(std::string_view text, const std::string& context);

// Parses CBOR (RFC 8949), which may have bytes as values, as parse() does JSON.
nlohmann::json parse_cbor(std::string_view bytes, const std::string& context);

// A value as it may stand in an error message: JSON, shortened, pure ASCII.
std::string excerpt(const nlohmann::json& value);

}  // namespace pipeline::strict_json
