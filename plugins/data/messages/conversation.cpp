#include "plugins/data/messages/conversation.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/files/hash128.hpp"

namespace pipeline::messages {
namespace {

using nlohmann::ordered_json;

std::string take_text(std::string_view& bytes) {
  std::string text;
  if (!files::take_text(bytes, text))
    throw DataError("a conversation in the cache is cut off: remove the cache, and it is made again");
  return text;
}

void add_members(ordered_json& object, const std::string& more) {
  if (!more.empty()) object.update(ordered_json::parse(more));
}

}  // namespace

size_t marks_in(std::string_view text) {
  size_t count = 0;
  for (size_t at = text.find(kImageMark); at != std::string_view::npos; at = text.find(kImageMark, at + 1))
    ++count;
  return count;
}

ordered_json Conversation::variables() const {
  ordered_json messages = ordered_json::array();
  for (const Turn& turn : turns) {
    const bool is_list = !turn.parts.empty() && marks_in(turn.text) == 0;
    ordered_json message{{"role", turn.role}, {"content", turn.text}};
    if (is_list) message["content"] = ordered_json::parse(turn.parts);
    add_members(message, turn.more);
    messages.push_back(std::move(message));
  }
  ordered_json all{{"messages", std::move(messages)}};
  add_members(all, more);
  return all;
}

std::string Conversation::pack() const {
  std::string out;
  for (const std::string* text : {&id, &more}) files::put_text(out, *text);
  out.append(files::bytes_of(uint64_t{images.size()}));
  for (const Picture& image : images)
    for (const std::string* text : {&image.name, &image.bytes}) files::put_text(out, *text);
  out.append(files::bytes_of(uint64_t{answers.size()}));
  for (const std::string& answer : answers) files::put_text(out, answer);
  for (const Turn& turn : turns) {
    for (const std::string* text : {&turn.role, &turn.text, &turn.more, &turn.parts})
      files::put_text(out, *text);
    out += turn.is_learnt ? '1' : '0';
  }
  return out;
}

Conversation Conversation::unpack(std::string_view bytes) {
  Conversation result;
  for (std::string* text : {&result.id, &result.more}) *text = take_text(bytes);
  uint64_t pictures = 0;
  if (!files::take(bytes, pictures)) take_text(bytes);  // throws
  for (uint64_t i = 0; i < pictures; ++i) {
    Picture image;
    for (std::string* text : {&image.name, &image.bytes}) *text = take_text(bytes);
    result.images.push_back(std::move(image));
  }
  uint64_t answered = 0;
  if (!files::take(bytes, answered)) take_text(bytes);  // throws
  for (uint64_t i = 0; i < answered; ++i) result.answers.push_back(take_text(bytes));
  while (!bytes.empty()) {
    Turn turn;
    for (std::string* text : {&turn.role, &turn.text, &turn.more, &turn.parts}) *text = take_text(bytes);
    char is_learnt = 0;
    if (!files::take(bytes, is_learnt)) take_text(bytes);  // throws
    turn.is_learnt = is_learnt == '1';
    result.turns.push_back(std::move(turn));
  }
  return result;
}

void ReadReport::drop(const std::string& reason, const std::string& where, uint64_t count) {
  constexpr size_t kMost = 32;  // some have words of the file in them
  Drop& entry = drops[drops.size() < kMost || drops.contains(reason) ? reason : "other reasons"];
  if (entry.count == 0) entry.first = where;
  entry.count += count;
}

std::string ReadReport::table(const std::string& path) const {
  if (drops.empty()) return "";
  std::string text = std::to_string(records - used) + " of " + std::to_string(records) + " records of " +
                     path + " are not used:";
  for (const auto& [reason, entry] : drops) {
    text += "\n  " + std::to_string(entry.count) + ": " + reason;
    if (!entry.first.empty()) text += "; the first is " + entry.first;
  }
  return text;
}

void ReadReport::require_used(const std::string& path) const {
  if (records == 0) throw DataError(path + ": has no records");
  if (used == 0)
    throw DataError(path + ": none of its " + std::to_string(records) + " records can be used.\n" +
                    table(path));
}

}  // namespace pipeline::messages
