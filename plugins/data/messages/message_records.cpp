#include "plugins/data/messages/message_records.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"

namespace pipeline::messages {
namespace {

using json = nlohmann::ordered_json;

std::string text_at(const json& object, const char* key) {
  if (find(object, key) == nullptr) throw DataError("a turn without \"" + std::string(key) + "\"");
  return optional_text(object, key);
}

// The id as text. A value nested in a record may be so deep that dump() overflows the stack.
std::string number_or_bool(const json& id) {
  if (!id.is_primitive()) throw DataError("\"id\" is " + kind_of(id) + ", must be text or a number");
  return id.dump();
}

// The marks of pictures as turns are read: at each the picture that the turn itself names there, if any.
using Places = std::vector<Picture>;

// A place that names no picture gets the next of the record's own; so does one that names that same picture.
std::vector<Picture> pictures_at(Places&& places, std::vector<Picture>&& listed) {
  std::vector<Picture> result;
  auto next = listed.begin();
  for (Picture& named : places) {
    if (next != listed.end() && (named.empty() || named == *next))
      result.push_back(std::move(*next++));
    else if (!named.empty())
      result.push_back(std::move(named));
  }
  std::move(next, listed.end(), std::back_inserter(result));
  return result;
}

// The picture that a part of a turn names, if any: under its type, or as chat templates have it.
Picture picture_in(const json& part, const std::string& type) {
  if (const json* const base64 = find(part, "base64"); base64 != nullptr && find(part, type) == nullptr) {
    Picture picture;
    picture.bytes = bytes_within("data:;base64," + optional_text(part, "base64"));
    return picture;
  }
  for (const char* const key : {type.c_str(), "url", "path"}) {
    const json* const given = find(part, key);
    if (given == nullptr) continue;
    std::vector<Picture> found = pictures_of(*given, key);
    if (found.size() > 1)
      throw DataError("several pictures in one part of a turn: each is a part of its own");
    if (!found.empty()) return std::move(found.front());
  }
  return {};
}

// The members of a message, or of a part of one, that a chat template may read, except `but_for`. Null and
// empty lists are left out: a data set writes them where another record has something.
json members_of(const json& object, std::initializer_list<std::string_view> but_for) {
  json members = json::object();
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(but_for, key) == but_for.end() && !value.is_null() &&
        !(value.is_array() && value.empty()))
      members[key] = value;
  return members;
}

// Text, or OpenAI's list of parts: {"type": "text", "text"} and {"type": "image"}, which may name the
// picture. What follows that is on a line of its own.
void take_content(const json& message, Turn& turn, Places& places) {
  const json* const content = find(message, "content");
  std::string& text = turn.text;
  if (content == nullptr || !content->is_array()) {
    text = text_at(message, "content");
    places.resize(places.size() + marks_in(text));
    return;
  }
  json parts = json::array();
  bool follows_picture = false;
  for (const json& part : *content) {
    if (!part.is_object()) throw DataError("a part that is " + kind_of(part) + ", must be an object");
    const std::string type = text_at(part, "type");
    const bool is_picture = type == "image" || type == "image_url";
    if (type != "text" && !is_picture)
      throw DataError("a part of the type " + strict_json::excerpt(type) + ", must be \"text\" or \"image\"");
    const std::string more = is_picture ? std::string(kImageMark) : text_at(part, "text");
    if (follows_picture && !more.empty()) text += '\n';
    text += more;
    follows_picture = is_picture || (follows_picture && more.empty());
    if (is_picture)
      places.push_back(picture_in(part, type));
    else
      places.resize(places.size() + marks_in(more));
    parts.push_back(is_picture ? json{{"type", "image"}} : members_of(part, {}));
  }
  turn.parts = packed(parts);
}

const json* turns_in(const json& object) {
  for (const std::string_view key : kTurnKeys)
    if (const json* const turns = find(object, key); turns != nullptr) return turns;
  return nullptr;
}

// The role that one of ShareGPT's names for it stands for.
std::string role_of(const std::string& from) {
  static constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
      {"human", "user"},    {"gpt", "assistant"},           {"chatgpt", "assistant"}, {"model", "assistant"},
      {"function", "tool"}, {"function_call", "assistant"}, {"observation", "tool"}};
  for (const std::string_view role : {"system", "developer", "user", "assistant", "tool"})
    if (from == role) return from;
  for (const auto& [name, role] : kRoles)
    if (from == name) return std::string(role);
  throw DataError("a turn of " + strict_json::excerpt(from) +
                  ", must be \"user\" or \"human\", \"assistant\" or \"gpt\", \"system\", \"developer\" or "
                  "\"tool\"");
}

Turn turn_of(const json& given, Places& places) {
  if (!given.is_object()) throw DataError("a turn that is " + kind_of(given) + ", must be an object");
  if (!given.contains("role") && !given.contains("from")) throw DataError("a turn without \"role\"");
  if (!given.contains("role")) {
    Turn turn{.role = role_of(text_at(given, "from")), .text = text_at(given, "value")};
    places.resize(places.size() + marks_in(turn.text));
    return turn;
  }
  Turn turn{.role = role_of(text_at(given, "role")),
            .text = {},
            .more = packed(members_of(given, {"role", "content", "weight"}))};
  if (find(given, "content") != nullptr || find(given, "tool_calls") == nullptr)
    take_content(given, turn, places);
  if (const json* const weight = find(given, "weight"); weight != nullptr) {
    if (*weight != 0 && *weight != 1)
      throw DataError("\"weight\" is " + strict_json::excerpt(*weight) + ", must be 0 or 1");
    turn.is_learnt = *weight == 1;
  }
  return turn;
}

// A prompt or a completion may be a list of messages, too.
void append_turns(const json& object, const std::string& key, const char* role, Conversation& result,
                  Places& places) {
  const json* const value = find(object, key);
  if (value == nullptr) return;
  if (value->is_array())
    for (const json& turn : *value) result.turns.push_back(turn_of(turn, places));
  else
    result.turns.push_back({.role = role, .text = optional_text(object, key)});
}

// LLaMA-Factory's: earlier questions and answers.
void append_history(const json& object, std::vector<Turn>& turns) {
  const json* const history = find(object, "history");
  if (history == nullptr) return;
  for (const json& pair : *history) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      throw DataError("\"history\" must be a list of pairs of texts");
    turns.push_back({.role = "user", .text = pair[0]});
    turns.push_back({.role = "assistant", .text = pair[1]});
  }
}

// "tools" may be text that is JSON, as LLaMA-Factory has it; TRL keeps other variables in an object.
std::string variables_of(const json& object) {
  json all = json::object();
  if (const json* const tools = find(object, "tools"); tools != nullptr && !tools->empty()) {
    all["tools"] = tools->is_string() ? parse_record(tools->get<std::string>()) : *tools;
    if (!all["tools"].is_array()) throw DataError("\"tools\" must be a list of objects");
  }
  if (const json* const others = find(object, "chat_template_kwargs"); others != nullptr) {
    if (!others->is_object() || others->contains("messages"))
      throw DataError("\"chat_template_kwargs\" must be an object of variables of the chat template");
    all.update(*others);
  }
  return packed(all);
}

void add_system_turn(const json& object, std::vector<Turn>& turns) {
  std::string system = optional_text(object, "system");
  if (system.empty()) system = optional_text(object, "system_prompt");  // OpenOrca's
  if (!system.empty() && (turns.empty() || turns[0].role != "system"))
    turns.insert(turns.begin(), {.role = "system", .text = std::move(system)});
}

Conversation without_turns(const json& object) {
  Conversation result{.id = {}, .images = {}, .turns = {}, .more = variables_of(object)};
  if (const json* const id = find(object, "id"); id != nullptr)
    result.id = id->is_string() ? id->get<std::string>() : number_or_bool(*id);
  for (const char* const key : {"image", "images"}) {
    const json* const given = find(object, key);
    if (given == nullptr) continue;
    std::vector<Picture> found = pictures_of(*given, key);
    if (found != result.images) std::move(found.begin(), found.end(), std::back_inserter(result.images));
  }
  return result;
}

constexpr struct {
  const char *question, *answer, *context;
} kColumns[] = {{"prompt", "completion", ""},       {"prompt", "response", ""},
                {"instruction", "output", "input"}, {"instruction", "response", "context"},
                {"question", "answer", ""},         {"question", "response", ""},
                {"query", "response", ""},          {"text", "", ""}};

}  // namespace

std::vector<std::string> record_keys(const Columns& wanted) {
  std::vector<std::string> keys(std::begin(kTurnKeys), std::end(kTurnKeys));
  for (const char* key :
       {"id", "image", "images", "system", "system_prompt", "history", "tools", "chat_template_kwargs"})
    keys.emplace_back(key);
  for (const auto& [question, answer, context] : kColumns)
    for (const char* key : {question, answer, context}) keys.emplace_back(key);
  for (const std::string& key : {wanted.question, wanted.answer, wanted.context}) keys.push_back(key);
  std::erase(keys, "");
  return keys;
}

bool has_turns(const json& object) { return turns_in(object) != nullptr; }

std::optional<Columns> columns_among(const std::vector<std::string>& names, const Columns& wanted) {
  const auto has = [&](const std::string& name) { return std::ranges::find(names, name) != names.end(); };
  if (!wanted.question.empty()) return has(wanted.question) ? std::optional(wanted) : std::nullopt;
  for (const bool is_whole : {true, false})  // where no answer is there, a question alone
    for (const auto& [question, answer, context] : kColumns)
      if (has(question) && (!is_whole || *answer == '\0' || has(answer)))
        return Columns{.question = question, .answer = answer, .context = context};
  return std::nullopt;
}

std::string known_columns() {
  std::string all;
  for (const auto& [question, answer, context] : kColumns) {
    all += std::string(all.empty() ? "" : *answer == '\0' ? ", or " : ", ") + question;
    if (*answer != '\0') all += std::string(" and ") + answer;
    if (*context != '\0') all += std::string(" with ") + context;
  }
  return all;
}

std::vector<Turn> turns_of(const Columns& columns, std::string question, const std::string& context,
                           std::string answer) {
  if (columns.answer.empty()) return {{.role = std::string(kPlainText), .text = std::move(question)}};
  std::vector<Turn> turns;
  if (!context.empty()) question += "\n\n" + context;
  turns.push_back({.role = "user", .text = std::move(question)});
  if (!answer.empty()) turns.push_back({.role = "assistant", .text = std::move(answer)});
  return turns;
}

Conversation conversation_of_turns(const json& object) {
  if (!object.is_object()) throw DataError(kind_of(object) + ", must be an object with \"conversations\"");
  Conversation result = without_turns(object);
  const json* const turns = turns_in(object);
  if (turns == nullptr || !turns->is_array())
    throw DataError("no list of turns as \"conversations\" or \"messages\"");
  Places places;
  for (const json& turn : *turns) result.turns.push_back(turn_of(turn, places));
  result.images = pictures_at(std::move(places), std::move(result.images));
  add_system_turn(object, result.turns);
  return result;
}

Conversation conversation_of(const json& object, const Columns& wanted) {
  if (!object.is_object() || has_turns(object)) return conversation_of_turns(object);
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items())
    if (!value.is_null()) names.push_back(name);
  const std::optional<Columns> columns = columns_among(names, wanted);
  if (!columns)
    throw DataError("neither \"messages\" nor " +
                    (wanted.question.empty() ? known_columns() : "\"" + wanted.question + "\""));
  Conversation result = without_turns(object);
  Places places;
  append_history(object, result.turns);
  if (object[columns->question].is_array()) {
    append_turns(object, columns->question, "user", result, places);
  } else {
    const std::string context = columns->context.empty() ? "" : optional_text(object, columns->context);
    for (Turn& turn : turns_of(*columns, optional_text(object, columns->question), context, ""))
      result.turns.push_back(std::move(turn));
  }
  if (!columns->answer.empty()) append_turns(object, columns->answer, "assistant", result, places);
  result.images = pictures_at(std::move(places), std::move(result.images));
  add_system_turn(object, result.turns);
  return result;
}

}  // namespace pipeline::messages
