#include "core/json/strict_json.hpp"

#include <unordered_set>
#include <vector>

namespace pipeline::strict_json {

using nlohmann::json;

namespace {

// The library walks what it has parsed by recursion, which a hostile file must not be able to make deep.
constexpr int kMaxDepth = 32;

// What is wrong is said without the library's words, which have any length and bytes of the text in them.
template <class Json>
Json parse_checked(std::string_view text, const std::string& context) try {
  using Event = typename Json::parse_event_t;
  std::vector<std::unordered_set<std::string>> keys;  // of the objects that are open, outermost first
  const auto check = [&](int depth, Event event, Json& value) {
    if (depth > kMaxDepth)
      throw Error(context + ": nested deeper than " + std::to_string(kMaxDepth) + " levels");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.template get<std::string>()).second)
      throw Error(context + ": key " + excerpt(json(value)) + " stands twice in one object");
    return true;
  };
  return Json::parse(text, check);
} catch (const typename Json::parse_error& error) {
  throw Error(context + ": not valid JSON at byte " + std::to_string(error.byte));
} catch (const typename Json::exception&) {  // the only other one
  throw Error(context + ": has a number that is out of range");
}

}  // namespace

json parse(std::string_view text, const std::string& context) { return parse_checked<json>(text, context); }

nlohmann::ordered_json parse_ordered(std::string_view text, const std::string& context) {
  return parse_checked<nlohmann::ordered_json>(text, context);
}

std::string excerpt(const json& value) {
  constexpr size_t kMaxBytes = 120;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);  // ASCII: may be cut anywhere
  if (text.size() > kMaxBytes) text = text.substr(0, kMaxBytes) + "...";
  return text;
}

}  // namespace pipeline::strict_json
