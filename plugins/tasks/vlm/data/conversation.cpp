#include "plugins/tasks/vlm/data/conversation.hpp"

#include <filesystem>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/tasks/common/files/hash128.hpp"
#include "plugins/tasks/common/text_pairs/pairs.hpp"
#include "plugins/tasks/vlm/data/shards.hpp"

namespace pipeline::vlm {
namespace {

using nlohmann::json;

void put(std::string& out, std::string_view text) {
  const uint64_t size = text.size();
  out.append(files::bytes_of(size)).append(text);
}

std::string take_text(std::string_view& bytes) {
  uint64_t size = 0;
  if (!files::take(bytes, size) || size > bytes.size())
    throw DataError("a conversation in the cache is cut off: remove the cache, and it is made again");
  std::string text(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return text;
}

size_t marks_in(std::string_view text) {
  size_t count = 0;
  for (size_t at = text.find(kImageMark); at != std::string_view::npos; at = text.find(kImageMark, at + 1))
    ++count;
  return count;
}

// Why a conversation cannot be used; empty: it can.
std::string problem_of(const Conversation& conversation, bool answer_required) {
  if (conversation.turns.empty()) return "no turns";
  size_t marks = 0;
  for (size_t i = 0; i < conversation.turns.size(); ++i) {
    const Turn& turn = conversation.turns[i];
    if (turn.assistant != (i % 2 == 1)) return "turns that do not alternate, beginning with the user's";
    const size_t here = marks_in(turn.text);
    if (turn.assistant && here > 0) return "<image> in an assistant's turn";
    if (turn.assistant && turn.text.empty()) return "an answer that is empty";
    marks += here;
  }
  if (answer_required && !conversation.turns.back().assistant) return "no answer to the last question";
  if (conversation.image.empty()) return marks == 0 ? "" : "<image> in the text, and no picture";
  return marks == 1 ? "" : marks == 0 ? "a picture, and no <image> in the text" : "several <image>";
}

void read_llava(const std::string& path, bool answer_required,
                const std::function<void(Conversation&&)>& sink, ReadReport& report, const ReadHooks& hooks) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw files::system_error(path + " cannot be opened", "check the path and its permissions");
  bool is_array = false;
  // Each object is used and dropped as soon as it is complete.
  const auto each = [&](int depth, json::parse_event_t event, json& value) {
    if (depth == 0 && event == json::parse_event_t::array_start) is_array = true;
    if (depth != 1 || !is_array || event == json::parse_event_t::array_start ||
        event == json::parse_event_t::object_start || event == json::parse_event_t::key)
      return true;
    const std::string where = "record " + std::to_string(++report.records);
    if (hooks.on_bytes && report.records % 256 == 0) hooks.on_bytes(static_cast<uint64_t>(file.tellg()));
    try {
      Conversation conversation = llava_conversation(value);
      if (conversation.id.empty()) conversation.id = std::to_string(report.records);
      take_conversation(std::move(conversation), answer_required, where, sink, report);
    } catch (const DataError& error) {
      report.drop("not LLaVA's {\"id\", \"image\", \"conversations\": [{\"from\", \"value\"}]}",
                  where + ": " + error.what());
    }
    return false;
  };
  try {
    const json rest = json::parse(file, each);
    if (!is_array) throw DataError(path + ": must be an array of conversations, is " + rest.type_name());
  } catch (const json::exception& error) {
    throw DataError(path + ": " + error.what());
  }
}

void read_captions(const std::string& path, const CaptionColumns& columns,
                   const std::function<void(Conversation&&)>& sink, ReadReport& report,
                   const ReadHooks& hooks) {
  const bool is_another = columns.question == columns.image || columns.question == columns.caption ||
                          columns.question == columns.id;
  text_pairs::PairReport pairs;
  text_pairs::read_pairs(path,
                         {.first = columns.image,
                          .second = columns.caption,
                          .id = columns.id.empty() ? "id" : columns.id,
                          .extra = is_another ? "" : columns.question,
                          .second_required = columns.answer_required,
                          .id_required = !columns.id.empty()},
                         [&](text_pairs::Pair&& pair) {
                           Conversation conversation{
                               .id = std::move(pair.id), .image = std::move(pair.first), .turns = {}};
                           conversation.turns = {{false, ask_about_picture(pair.extra)}};
                           if (!pair.second.empty())
                             conversation.turns.push_back({true, std::move(pair.second)});
                           take_conversation(std::move(conversation), columns.answer_required,
                                             "line " + std::to_string(pair.line), sink, report);
                         },
                         pairs, {.on_block = hooks.on_bytes});
  report.records = pairs.records;
  if (pairs.dropped() > 0) report.drops["what follows:\n" + pairs.table(path)].count = pairs.dropped();
}

}  // namespace

std::string ask_about_picture(const std::string& question) {
  if (question.empty()) return std::string(kImageMark);
  return marks_in(question) > 0 ? question : std::string(kImageMark) + "\n" + question;
}

std::string Conversation::pack() const {
  std::string out;
  put(out, id);
  put(out, image);
  for (const Turn& turn : turns) put(out, turn.text);
  return out;
}

Conversation Conversation::unpack(std::string_view bytes) {
  Conversation result{take_text(bytes), take_text(bytes), {}};
  while (!bytes.empty()) result.turns.push_back({result.turns.size() % 2 == 1, take_text(bytes)});
  return result;
}

void ReadReport::drop(const std::string& reason, const std::string& where) {
  Drop& entry = drops[reason];
  if (entry.count++ == 0) entry.first = where;
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

void take_conversation(Conversation&& conversation, bool answer_required, const std::string& where,
                       const std::function<void(Conversation&&)>& sink, ReadReport& report) {
  if (const std::string problem = problem_of(conversation, answer_required); !problem.empty())
    return report.drop(problem, where);
  ++report.used;
  sink(std::move(conversation));
}

Conversation llava_conversation(const json& object) try {
  Conversation result;
  if (const auto id = object.find("id"); id != object.end())
    result.id = id->is_string() ? id->get<std::string>() : id->dump();
  if (const auto image = object.find("image"); image != object.end() && !image->is_null())
    result.image = image->get<std::string>();
  for (const json& turn : object.at("conversations")) {
    const std::string from = turn.at("from");
    const bool assistant = from == "gpt" || from == "assistant";
    if (!assistant && from != "human" && from != "user")
      throw DataError("\"from\": \"" + from + "\", must be \"human\" or \"gpt\"");
    result.turns.push_back({assistant, turn.at("value")});
  }
  return result;
} catch (const json::exception& error) {
  throw DataError(error.what());
}

void read_conversations(const std::string& path, const CaptionColumns& columns,
                        const std::function<void(Conversation&&)>& sink, ReadReport& report,
                        const ReadHooks& hooks) {
  report = {};
  if (is_sharded(path))
    read_shards(path, columns, sink, report, hooks);
  else if (std::filesystem::path(path).extension() == ".json")
    read_llava(path, columns.answer_required, sink, report, hooks);
  else
    read_captions(path, columns, sink, report, hooks);
  if (report.used == 0)
    throw DataError(path + ": none of its " + std::to_string(report.records) + " records can be used.\n" +
                    report.table(path));
}

}  // namespace pipeline::vlm
