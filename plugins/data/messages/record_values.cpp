#include "plugins/data/messages/message_records.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "plugins/data/files/base64.hpp"
#include "plugins/data/parquet/parquet_file.hpp"
#include "plugins/data/records/json_records.hpp"
#include "plugins/data/records/pairs.hpp"

namespace pipeline::messages {
namespace {

using json = nlohmann::ordered_json;

// The base64 that a Parquet row has in place of a text; nullptr: none.
const json* bytes_in(const json& value) {
  const auto found = value.is_object() ? value.find(parquet::kBytesKey) : value.end();
  return found != value.end() && found->is_string() ? &*found : nullptr;
}

}  // namespace

std::string kind_of(const json& value) {
  return bytes_in(value)      ? "bytes that are not UTF-8"
         : value.is_null()    ? "null"
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

std::string bytes_within(const std::string& data) {
  const size_t comma = data.find(',');
  const std::string_view kind = std::string_view(data).substr(0, std::min(comma, data.size()));
  std::optional<std::string> bytes;
  if (comma != std::string::npos && kind.ends_with(";base64"))
    bytes = files::base64_decode(std::string_view(data).substr(comma + 1));
  if (!bytes || bytes->empty())
    throw DataError("the picture within the record is not what \"data:image/...;base64,\" says");
  return std::move(*bytes);
}

std::string packed(const json& members) {
  std::string text = members.empty() ? "" : members.dump();
  if (text.find(parquet::kBytesKey) == std::string::npos) return text;
  for (const auto& [key, value] : members.items())
    if (members.is_object() && value.dump().find(parquet::kBytesKey) != std::string::npos)
      throw DataError("\"" + key + "\" has bytes in it that are not UTF-8");
  throw DataError("a part of a turn has bytes in it that are not UTF-8");
}

json parse_record(std::string_view text) try {
  return strict_json::parse_ordered(text, "its JSON");
} catch (const strict_json::JsonError& error) {
  if (records::pick_fields(text, {}).state == records::JsonFields::kOk) throw DataError(error.what());
  return json(json::value_t::discarded);
}

std::vector<std::string> texts_under(const json& object, const std::string& key) {
  std::vector<std::string> texts;
  const json* const value = find(object, key);
  const auto add = [&](const json& one) {
    const json* const text = one.is_object() ? find(one, "answer") : &one;
    if (text == nullptr || !text->is_string())
      throw DataError("\"" + key + "\" has " + kind_of(one) +
                      " in it, must have texts, or objects with a text as \"answer\"");
    const auto& found = text->get_ref<const std::string&>();
    if (!records::is_blank(found)) texts.push_back(found);
  };
  if (value == nullptr) return texts;
  if (value->is_array())
    for (const json& one : *value) add(one);
  else
    add(*value);
  return texts;
}

std::string optional_text(const json& object, const std::string& key) {
  const json* const value = find(object, key);
  if (value == nullptr) return "";
  if (!value->is_string()) throw DataError("\"" + key + "\" is " + kind_of(*value) + ", must be text");
  return value->get<std::string>();
}

namespace {

Picture picture_of(const json& value, const char* key) {
  Picture within;
  if (const json* const base64 = bytes_in(value)) {
    within.bytes = bytes_within("data:;base64," + base64->get<std::string>());
    return within;
  }
  if (value.is_object() && (value.contains("bytes") || value.contains("path") || value.contains("url"))) {
    Picture picture = optional_text(value, value.contains("url") ? "url" : "path");
    if (const json* const bytes = find(value, "bytes"); bytes != nullptr && bytes_in(*bytes) != nullptr)
      picture.bytes = picture_of(*bytes, key).bytes;
    else if (std::string text = optional_text(value, "bytes");
             text.starts_with("data:") || files::is_picture_in_base64(text))
      picture.bytes = picture_named(text).bytes;
    else
      picture.bytes = std::move(text);
    return picture.bytes.empty() && value.contains("url") ? picture_of(value["url"], key) : picture;
  }
  if (!value.is_string())
    throw DataError("\"" + std::string(key) + "\" is " + kind_of(value) + ", must be a picture's path");
  const auto& text = value.get_ref<const std::string&>();
  if (text.find('\0') == std::string::npos) return picture_named(text);
  within.bytes = text;  // bytes that happen to be UTF-8
  return within;
}

}  // namespace

Picture picture_named(const std::string& text) {
  Picture picture;
  if (text.starts_with("data:")) {
    picture.bytes = bytes_within(text);
    return picture;
  }
  if (text.find("://") != std::string::npos)
    throw DataError("the picture is a web address: download it, and name the file");
  if (files::is_picture_in_base64(text))
    throw DataError(
        "the picture is base64 by itself: write \"data:image/jpeg;base64,\", or the picture's own kind, "
        "before it");
  picture.name = text;
  return picture;
}

std::vector<Picture> pictures_of(const json& given, const char* key) {
  std::vector<Picture> result;
  if (!given.is_array()) {
    Picture one = picture_of(given, key);
    if (!one.empty()) result.push_back(std::move(one));
    return result;
  }
  for (const json& value : given) {
    result.push_back(picture_of(value, key));
    if (result.back().empty())
      throw DataError("a picture of \"" + std::string(key) + "\" has neither bytes nor a path");
  }
  return result;
}

}  // namespace pipeline::messages
