#include "core/json/strict_json.hpp"

#include <unordered_set>
#include <vector>

namespace pipeline::strict_json {

using nlohmann::json;

namespace {

// The library walks what it has parsed by recursion, which a hostile file must not be able to make deep.
constexpr int kMaxDepth = 32;

}  // namespace

json parse(std::string_view text, const std::string& context) {
  std::vector<std::unordered_set<std::string>> keys;  // of the objects that are open, outermost first
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxDepth)
      throw Error(context + ": nested deeper than " + std::to_string(kMaxDepth) + " levels");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw Error(context + ": key " + excerpt(value) + " stands twice in one object");
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    throw Error(context + ": not valid JSON: " + error.what());
  }
}

std::string excerpt(const json& value) {
  constexpr size_t kMaxBytes = 120;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);  // ASCII: may be cut anywhere
  if (text.size() > kMaxBytes) text = text.substr(0, kMaxBytes) + "...";
  return text;
}

}  // namespace pipeline::strict_json
