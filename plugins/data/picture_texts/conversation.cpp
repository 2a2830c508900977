#include "plugins/data/picture_texts/conversation.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "plugins/data/picture_texts/pictures.hpp"
#include "plugins/data/records/csv_reader.hpp"
#include "plugins/data/records/record_texts.hpp"

namespace pipeline::picture_texts {

std::string plain_question(const std::string& text) {
  std::string plain = text;
  for (size_t at = 0; (at = plain.find(kImageMark, at)) != std::string::npos;)
    plain.erase(at, kImageMark.size());
  const size_t begin = plain.find_first_not_of(" \n"), end = plain.find_last_not_of(" \n");
  return begin == std::string::npos ? "" : plain.substr(begin, end - begin + 1);
}

std::string problem_of(const Conversation& conversation, bool answer_required) {
  if (conversation.turns.empty()) return "no turns";
  size_t marks = 0;
  for (size_t i = 0; i < conversation.turns.size(); ++i) {
    const Turn& turn = conversation.turns[i];
    if (turn.is_assistant() != (i % 2 == 1)) return "turns that do not alternate, beginning with the user's";
    const size_t here = marks_in(turn.text);
    if (turn.is_assistant() && here > 0) return "<image> in an assistant's turn";
    if (turn.is_assistant() && turn.text.empty()) return "an answer that is empty";
    marks += here;
  }
  if (answer_required && !conversation.turns.back().is_assistant()) return "no answer to the last question";
  const size_t pictures = conversation.images.size();
  if (pictures == marks) return "";
  return pictures == 0      ? "<image> in the text, and no picture"
         : marks == 0       ? "a picture, and no <image> in the text"
         : marks > pictures ? "more <image> in the text than pictures"
                            : "more pictures than <image> in the text";
}

namespace {

constexpr const char *kFileName = "file_name", *kText = "text";

// The columns as Hugging Face's folders of pictures call them, where the usual ones are not there.
CaptionColumns as_named(CaptionColumns columns, const auto& has) {
  if (columns.image != "image" || has("image") || !has(kFileName)) return columns;
  columns.image = kFileName;
  if (columns.caption != "caption" || has("caption") || !has(kText)) return columns;
  if (columns.question == columns.caption) columns.question = kText;  // there is none
  columns.caption = kText;
  return columns;
}

// The columns as the header of the source's first file names them, whatever separates its names.
CaptionColumns as_in_header(const CaptionColumns& columns, const sources::SourceFiles& source) {
  records::Input input(source.paths.front(), nullptr);
  records::skip_line_ends(input);
  std::string_view line = input.ahead();
  line = line.substr(0, line.find_first_of("\r\n"));
  return as_named(columns, [&](const char* name) {
    return std::ranges::any_of(std::string_view(",\t;"), [&](char separator) {
      const std::vector<std::string> names = records::header_names(line, separator);
      return std::ranges::find(names, name) != names.end();
    });
  });
}

void read_captions(const sources::SourceFiles& source, const CaptionColumns& given,
                   messages::Collector& collector, const ReadHooks& hooks) {
  const CaptionColumns columns = as_in_header(given, source);
  const bool is_another = columns.question == columns.image || columns.question == columns.caption ||
                          columns.question == columns.id;
  messages::read_pairs(
      source,
      {.first = columns.image,
       .second = columns.caption,
       .id = columns.id.empty() ? "id" : columns.id,
       .extra = is_another ? "" : columns.question,
       .second_required = columns.answer_required,
       .id_required = !columns.id.empty()},
      columns.quotes,
      [](records::Pair&& pair) {
        return Conversation{.id = std::move(pair.id),
                            .images = {messages::picture_named(pair.first)},
                            .turns = turns_about_pictures(pair.extra, 1, std::move(pair.second))};
      },
      collector, hooks);
}

}  // namespace

std::string ask_about_pictures(const std::string& question, size_t pictures) {
  if (marks_in(question) > 0) return question;
  std::string text;
  for (size_t i = 0; i < pictures; ++i) text.append(i == 0 ? "" : "\n").append(kImageMark);
  return question.empty() || text.empty() ? text + question : text + "\n" + question;
}

std::vector<Turn> turns_about_pictures(const std::string& question, size_t pictures, std::string answer) {
  std::vector<Turn> turns{{.role = "user", .text = ask_about_pictures(question, pictures)}};
  if (!answer.empty()) turns.push_back({.role = "assistant", .text = std::move(answer)});
  return turns;
}

size_t pictures_until(const Conversation& conversation, size_t question) {
  size_t count = 0;
  for (size_t i = 0; i <= 2 * question && i < conversation.turns.size(); ++i)
    count += marks_in(conversation.turns[i].text);
  return count;
}

std::vector<std::string> shared_contents(const Conversation& conversation,
                                         const std::filesystem::path& images) {
  if (conversation.images.empty()) return {conversation.turns.front().text};
  std::vector<std::string> contents;
  for (const messages::Picture& picture : conversation.images) {
    const std::filesystem::path name = picture.bytes.empty() ? name_within(images, picture.name) : "";
    contents.push_back(!picture.bytes.empty() ? picture.bytes : name.empty() ? picture.name : name.string());
  }
  return contents;
}

namespace {

// The most frequent text; the first of several that are equally frequent.
std::string most_frequent(const std::vector<std::string>& texts) {
  const auto count = [&](const std::string& text) { return std::ranges::count(texts, text); };
  return texts.empty() ? "" : *std::ranges::max_element(texts, {}, count);
}

}  // namespace

Conversation caption_of(const nlohmann::ordered_json& object, std::vector<messages::Picture> pictures,
                        const CaptionColumns& columns) {
  Conversation result;
  const std::string id = columns.id.empty() ? "id" : columns.id;
  if (const auto found = object.find(id); found != object.end() && found->is_primitive() && !found->is_null())
    result.id = found->is_string() ? found->get<std::string>() : found->dump();
  const std::vector<std::string> captions = messages::texts_under(object, columns.caption);
  if (captions.size() > 1 && columns.answers.empty())
    throw DataError("several texts as \"" + columns.caption + "\": each must be a record of its own");
  const std::vector<std::string> answers =
      columns.answers == columns.caption ? captions : messages::texts_under(object, columns.answers);
  std::string caption = captions.empty() ? most_frequent(answers) : captions.front();
  if (caption.empty() && columns.answer_required)
    throw DataError("no \"" + columns.caption + "\", or one without text");
  const std::vector<std::string>& truths = answers.empty() ? captions : answers;
  if (truths.size() > 1 || (truths.size() == 1 && truths.front() != caption)) result.answers = truths;
  result.images = std::move(pictures);
  const bool has_question =
      columns.question != columns.image && columns.question != columns.caption && columns.question != id;
  std::string question = has_question ? messages::optional_text(object, columns.question) : "";
  if (records::is_blank(question)) question.clear();
  result.turns = turns_about_pictures(question, result.images.size(), std::move(caption));
  return result;
}

Conversation caption_of(const nlohmann::ordered_json& object, const CaptionColumns& given) {
  const CaptionColumns columns = as_named(given, [&](const char* name) { return object.contains(name); });
  const auto image = object.find(columns.image);
  if (image == object.end() || image->is_null())
    throw DataError("no \"" + columns.image +
                    "\", and no list of turns as \"conversations\" or \"messages\"");
  std::vector<messages::Picture> pictures = messages::pictures_of(*image, columns.image.c_str());
  if (pictures.empty()) throw DataError("no picture as \"" + columns.image + "\"");
  return caption_of(object, std::move(pictures), columns);
}

Conversation conversation_about_pictures(const nlohmann::ordered_json& object, const std::string& answers) {
  Conversation conversation = messages::conversation_of_turns(object);
  if (!answers.empty()) conversation.answers = messages::texts_under(object, answers);
  std::erase_if(conversation.turns,
                [](const Turn& turn) { return turn.role == "system" && records::is_blank(turn.text); });
  for (const Turn& turn : conversation.turns) {
    if (turn.role == "system")
      throw DataError(
          "a system turn, for which task.chat.template has no place: remove it, or put its text before the "
          "question");
    if (turn.role != "user" && turn.role != "assistant")
      throw DataError("a turn of the role \"" + turn.role + "\", for which task.chat.template has no place");
  }
  return conversation;
}

namespace {

std::vector<std::string> keys_of(const CaptionColumns& columns) {
  std::vector<std::string> keys =
      messages::record_keys({.question = columns.answers, .answer = "", .context = ""});
  for (const std::string& key :
       {columns.image, columns.caption, columns.question, columns.answers,
        columns.id.empty() ? "id" : columns.id, std::string(kFileName), std::string(kText)})
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  std::erase(keys, "");
  return keys;
}

}  // namespace

void read_conversations(const sources::SourceFiles& source, const CaptionColumns& columns,
                        const messages::Collector::Sink& sink, ReadReport& report, const ReadHooks& hooks) {
  report = {};
  const bool is_of_coco = source.format == sources::Format::kJson && is_coco(source.paths.front(), hooks);
  messages::Collector collector(
      [&](const Conversation& one) { return problem_of(one, columns.answer_required); }, sink, report,
      hooks.threads);
  if (source.format == sources::Format::kTar)
    read_shards(source, columns, collector, hooks);
  else if (source.format == sources::Format::kPictures)
    read_pictures_with_texts(source, columns, collector, hooks);
  else if (source.format == sources::Format::kCsv || source.format == sources::Format::kTsv)
    read_captions(source, columns, collector, hooks);
  else if (is_of_coco)
    read_coco(source, columns, collector, hooks);
  else
    messages::read_objects(
        source, keys_of(columns),
        [columns](const auto& object) {
          return messages::has_turns(object) || !object.is_object()
                     ? conversation_about_pictures(object, columns.answers)
                     : caption_of(object, columns);
        },
        collector, hooks);
  report.require_used(source.named);
  const bool has_no_columns =
      source.format == sources::Format::kTar || source.format == sources::Format::kPictures || is_of_coco;
  if (has_no_columns || !columns.answer_required) return;
  std::vector<std::string> names =
      records::column_names(source.paths.front(), source.format, keys_of(columns), [&](uint64_t) {
        if (hooks.on_bytes) hooks.on_bytes(source.bytes);  // all is read
      });
  std::erase(names, columns.answers);
  const bool has_turns = std::ranges::any_of(names, [](const std::string& name) {
    return std::ranges::find(messages::kTurnKeys, name) != std::end(messages::kTurnKeys);
  });
  const std::string note =
      has_turns ? messages::note_of_unused(names, {}) : records::note_of_unused(names, keys_of(columns));
  if (!note.empty()) report.notes += source.named + ": " + note + "\n";
}

messages::Source source_of(const sources::SourceFiles& files, const CaptionColumns& columns,
                           const std::filesystem::path& images) {
  std::string options = "pictures";
  for (const std::string& text :
       {columns.image, columns.caption, columns.question, columns.id, columns.answers, images.string()})
    options += "\n" + text;
  for (const int number : {columns.answer_required ? 1 : 0, static_cast<int>(columns.quotes)})
    options += "\n" + std::to_string(number);
  return {.files = files,
          .options = options,
          .read = [=](const auto& sink, ReadReport& report,
                      const ReadHooks& hooks) { read_conversations(files, columns, sink, report, hooks); },
          .contents = [=](const Conversation& conversation) { return shared_contents(conversation, images); },
          .has_several = true};
}

}  // namespace pipeline::picture_texts
