#include "plugins/tasks/vlm/data/conversation.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/files/hash128.hpp"
#include "plugins/data/text_pairs/json_records.hpp"
#include "plugins/tasks/vlm/data/pictures.hpp"
#include "plugins/tasks/vlm/data/shards.hpp"
#include "plugins/tasks/vlm/data/turn_records.hpp"

namespace pipeline::vlm {
namespace {

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

// A column of captions, or turns? The first record that can be read says so.
bool file_has_turns(const std::string& path) {
  text_pairs::Input input(path, nullptr);
  text_pairs::JsonRecords records(input, text_pairs::ReadOptions{}.max_record_bytes);
  while (records.next()) {
    const auto found = text_pairs::pick_fields(records.text(), {std::begin(kTurnKeys), std::end(kTurnKeys)});
    if (found.state != text_pairs::JsonFields::kOk) continue;
    return std::any_of(found.fields.begin(), found.fields.end(), [](const text_pairs::JsonField& field) {
      return field.state != text_pairs::JsonField::kAbsent;
    });
  }
  return false;
}

void read_turns(const std::string& path, bool answer_required,
                const std::function<void(Conversation&&)>& sink, ReadReport& report, const ReadHooks& hooks) {
  text_pairs::Input input(path, hooks.on_bytes);
  text_pairs::JsonRecords records(input, text_pairs::ReadOptions{}.max_record_bytes);
  while (records.next()) {
    ++report.records;
    const std::string where =
        "record " + std::to_string(report.records) + ", line " + std::to_string(records.line());
    if (records.too_long()) {
      report.drop("longer than " + std::to_string(text_pairs::ReadOptions{}.max_record_bytes) + " bytes",
                  where);
      continue;
    }
    try {
      const nlohmann::json object = parse_record(records.text());
      if (object.is_discarded()) {
        const std::string detail = text_pairs::pick_fields(records.text(), {}).detail;
        report.drop(records.is_cut_off() ? "the file ends inside the record" : "not JSON in UTF-8",
                    detail.empty() ? where : where + ": " + detail);
        continue;
      }
      Conversation conversation = conversation_of_turns(object);
      if (conversation.id.empty()) conversation.id = std::to_string(report.records);
      take_conversation(std::move(conversation), answer_required, where, sink, report);
    } catch (const DataError& error) {
      report.drop(error.what(), where);
    }
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
                         pairs, {.quotes = columns.quotes, .on_block = hooks.on_bytes});
  report.records = pairs.records;
  for (const text_pairs::Drop& drop : pairs.drops)
    report.drops[drop.problem() + ": " + drop.remedy()] = {drop.count,
                                                           "line " + std::to_string(drop.lines.at(0))};
  for (const std::string& note : pairs.notes) report.notes += path + ": " + note + "\n";
}

}  // namespace

std::string ask_about_picture(const std::string& question) {
  if (question.empty()) return std::string(kImageMark);
  return marks_in(question) > 0 ? question : std::string(kImageMark) + "\n" + question;
}

std::string Conversation::content(const std::filesystem::path& images) const {
  if (image.empty()) return turns.front().text;
  const std::filesystem::path name = name_within(images, image);
  return name.empty() ? image : name.string();
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
  constexpr size_t kMost = 32;  // some have words of the file in them
  Drop& entry = drops[drops.size() < kMost || drops.contains(reason) ? reason : "other reasons"];
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

void read_conversations(const std::string& path, const CaptionColumns& columns,
                        const std::function<void(Conversation&&)>& sink, ReadReport& report,
                        const ReadHooks& hooks) {
  report = {};
  if (is_sharded(path))
    read_shards(path, columns, sink, report, hooks);
  else if (text_pairs::is_json(path) && file_has_turns(path))
    read_turns(path, columns.answer_required, sink, report, hooks);
  else
    read_captions(path, columns, sink, report, hooks);
  if (report.records == 0) throw DataError(path + ": has no records");
  if (report.used == 0)
    throw DataError(path + ": none of its " + std::to_string(report.records) + " records can be used.\n" +
                    report.table(path));
}

}  // namespace pipeline::vlm
