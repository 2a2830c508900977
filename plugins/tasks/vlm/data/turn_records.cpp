#include "plugins/tasks/vlm/data/turn_records.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "plugins/data/text_pairs/json_records.hpp"

namespace pipeline::vlm {
namespace {

using nlohmann::json;

std::string kind_of(const json& value) {
  return value.is_null()      ? "null"
         : value.is_array()   ? "a list"
         : value.is_object()  ? "an object"
         : value.is_boolean() ? "true or false"
         : value.is_number()  ? "a number"
                              : "text";
}

const json* find(const json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_at(const json& object, const char* key) {
  if (find(object, key) == nullptr) throw DataError("a turn without \"" + std::string(key) + "\"");
  return optional_text(object, key);
}

// As text. What is nested in a record may be so deep that dump() leaves the stack.
std::string number_or_bool(const json& id) {
  if (!id.is_primitive()) throw DataError("\"id\" is " + kind_of(id) + ", must be text or a number");
  return id.dump();
}

// A path, or a list of one.
std::string picture_of(const json& given, const char* key) {
  if (given.is_array() && given.size() > 1) throw DataError("several pictures: a conversation may have one");
  if (given.is_array() && given.empty()) return "";
  const json& value = given.is_array() ? given[0] : given;
  if (!value.is_string())
    throw DataError("\"" + std::string(key) + "\" is " + kind_of(value) + ", must be a picture's path");
  const auto& name = value.get_ref<const std::string&>();
  if (name.find("://") != std::string::npos)
    throw DataError("the picture is a web address: download it, and name the file");
  if (name.starts_with("data:"))
    throw DataError("the picture is within the record: write it to a file, and name that");
  return name;
}

// A record has one, which may be named more than once.
void take_picture(std::string&& name, std::string& image) {
  if (!image.empty() && !name.empty() && name != image)
    throw DataError("several pictures: a conversation may have one");
  if (!name.empty()) image = std::move(name);
}

// Text, or OpenAI's list of parts: {"type": "text", "text"} and {"type": "image"}, which may name the
// picture. What follows that is on a line of its own.
std::string content_of(const json& turn, std::string& image) {
  const json* const content = find(turn, "content");
  if (content == nullptr || !content->is_array()) return text_at(turn, "content");
  std::string text;
  bool follows_picture = false;
  for (const json& part : *content) {
    if (!part.is_object()) throw DataError("a part that is " + kind_of(part) + ", must be an object");
    const std::string type = text_at(part, "type");
    if (type != "text" && type != "image")
      throw DataError("a part of the type " + strict_json::excerpt(type) + ", must be \"text\" or \"image\"");
    const std::string more = type == "image" ? std::string(kImageMark) : text_at(part, "text");
    if (follows_picture && !more.empty()) text += '\n';
    text += more;
    follows_picture = type == "image" || (follows_picture && more.empty());
    if (const json* const name = find(part, "image"); type == "image" && name != nullptr)
      take_picture(picture_of(*name, "image"), image);
  }
  return text;
}

const json* turns_in(const json& object) {
  for (const std::string_view key : kTurnKeys)
    if (const json* const turns = find(object, key); turns != nullptr) return turns;
  return nullptr;
}

}  // namespace

json parse_record(std::string_view text) try {
  return strict_json::parse(text, "its JSON");
} catch (const strict_json::Error& error) {
  if (text_pairs::pick_fields(text, {}).state == text_pairs::JsonFields::kOk) throw DataError(error.what());
  return json(json::value_t::discarded);
}

bool has_turns(const json& object) { return turns_in(object) != nullptr; }

std::string optional_text(const json& object, const std::string& key) {
  const json* const value = find(object, key);
  if (value == nullptr) return "";
  if (!value->is_string()) throw DataError("\"" + key + "\" is " + kind_of(*value) + ", must be text");
  return value->get<std::string>();
}

Conversation conversation_of_turns(const json& object) {
  if (!object.is_object()) throw DataError(kind_of(object) + ", must be an object with \"conversations\"");
  Conversation result;
  if (const json* const id = find(object, "id"); id != nullptr)
    result.id = id->is_string() ? id->get<std::string>() : number_or_bool(*id);
  for (const char* const key : {"image", "images"})
    if (const json* const image = find(object, key); image != nullptr)
      take_picture(picture_of(*image, key), result.image);
  const json* const turns = turns_in(object);
  if (turns == nullptr || !turns->is_array())
    throw DataError("no list of turns as \"conversations\" or \"messages\"");
  for (const json& turn : *turns) {
    if (!turn.is_object()) throw DataError("a turn that is " + kind_of(turn) + ", must be an object");
    const bool is_message = turn.contains("role");
    const std::string from = text_at(turn, is_message ? "role" : "from"),
                      text = is_message ? content_of(turn, result.image) : text_at(turn, "value");
    const bool assistant = from == "gpt" || from == "assistant";
    if (from == "system" && text_pairs::is_blank(text)) continue;
    if (from == "system")
      throw DataError(
          "a system turn, for which task.chat.template has no place: remove it, or put its text before the "
          "question");
    if (!assistant && from != "human" && from != "user")
      throw DataError("a turn of " + strict_json::excerpt(from) + ", must be \"human\" or \"gpt\"");
    result.turns.push_back({assistant, text});
  }
  return result;
}

}  // namespace pipeline::vlm
