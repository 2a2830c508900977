// Pictures with text, as conversations.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plugins/data/messages/conversation_file.hpp"
#include "plugins/data/messages/conversation_store.hpp"

namespace pipeline::picture_texts {

using messages::Conversation;
using messages::ConversationStore;
using messages::DataError;
using messages::kImageMark;
using messages::marks_in;
using messages::ReadHooks;
using messages::ReadReport;
using messages::Turn;

// Here turns of user and assistant alternate, the user's first; the last is the assistant's, or a question to
// be answered. The user's turns have a mark for each picture, in order. A caption is a conversation in which
// the user says nothing but marks.

// The number of the last question; its turn is 2 * that number.
inline size_t last_question(const Conversation& conversation) { return (conversation.turns.size() - 1) / 2; }

// A question without the marks of its pictures.
std::string plain_question(const std::string& text);

// How many pictures there are up to this question.
size_t pictures_until(const Conversation& conversation, size_t question);

// Conversations that have one of these in common belong to one part of the data: the pictures, however their
// paths in the folder `images` are written, else the first question.
std::vector<std::string> shared_contents(const Conversation& conversation,
                                         const std::filesystem::path& images);

// What the columns of captions are called, and what must be there.
struct CaptionColumns {
  std::string image = "image", caption = "caption";
  std::string question = "question";  // where a record has one, the caption is the answer to it
  std::string id;                     // empty: "id" if present, else numbered
  std::string answers = "answers";    // of JSON and Parquet: what several people answered; empty: none
  // In test files for predictions the caption may be missing, and so may the last answer of a conversation.
  bool answer_required = true;
  records::Quotes quotes = records::Quotes::kAuto;
};

// The turns of a question and its answer, which is left out if it is empty. The user says the marks of the
// pictures before a question that has none.
std::vector<Turn> turns_about_pictures(const std::string& question, size_t pictures, std::string answer);
std::string ask_about_pictures(const std::string& question, size_t pictures);

// Reads a source in order. JSON holds conversations such as LLaVA's {"id", "image", "conversations":
// [{"from": "human" | "gpt", "value"}]}, or captions and questions, as tables do, also under Hugging Face's
// names "file_name" and "text"; or it is COCO's (read_coco()). *.tar is WebDataset's form, and a folder of
// pictures with texts beside them is read (read_shards()). Records that cannot be used are dropped and
// counted. Throws DataError where a file cannot be read or there is nothing usable. Memory is that of a few
// hundred records.
void read_conversations(const sources::SourceFiles& source, const CaptionColumns& columns,
                        const messages::Collector::Sink& sink, ReadReport& report,
                        const ReadHooks& hooks = {});

// Pictures with their caption, or with a question and its answer. Where several people wrote one, that of the
// caption's column is learnt, else the one that most of them gave. Throws DataError with the reason why not.
Conversation caption_of(const nlohmann::ordered_json& object, const CaptionColumns& columns);
// The caption of a record whose pictures are given.
Conversation caption_of(const nlohmann::ordered_json& object, std::vector<messages::Picture> pictures,
                        const CaptionColumns& columns);

// Why a conversation cannot be used; empty: it can.
std::string problem_of(const Conversation& conversation, bool answer_required);

// A conversation of a record with turns, as this task can use it. `answers`: the key under which there may be
// several to the first question; empty: none. Throws DataError with the reason why not.
Conversation conversation_about_pictures(const nlohmann::ordered_json& object,
                                         const std::string& answers = "");

// The source of such conversations for a ConversationStore. `images`: the folder of the pictures.
messages::Source source_of(const sources::SourceFiles& files, const CaptionColumns& columns,
                           const std::filesystem::path& images);

// COCO's annotations are one object with the lists "images" and "annotations", of which each has a caption.
// Whether a file is such, by its first record of a picture or a caption. Hooks may throw to stop.
bool is_coco(const std::string& path, const ReadHooks& hooks);

// A sample is an annotation; its picture's name is that of the picture with its "image_id". Memory is that of
// all names and captions, as these come in any order. Throws as read_conversations() does.
void read_coco(const sources::SourceFiles& source, const CaptionColumns& columns,
               messages::Collector& collector, const ReadHooks& hooks);

// WebDataset's form: tar archives in which the files of a sample stand side by side and differ in what
// follows the first dot of their names: 000.jpg and 000.txt. Source: github.com/webdataset/webdataset.
//
// A sample is a picture, or several with numbers as WebDataset's users give them (000.0.jpg, 000.1.jpg), in
// whose order they are, and its caption (*.txt, *.caption, or in *.json under the caption's column) or its
// conversation (*.json with turns, see message_records.hpp). Its id is the name before the dot, and its
// picture's name is the archive's, a slash and the file's. Throws as read_conversations() does.
void read_shards(const sources::SourceFiles& source, const CaptionColumns& columns,
                 messages::Collector& collector, const ReadHooks& hooks);

// Reads a folder's files as read_shards() reads an archive's: cat.jpg and cat.txt, told apart by their last
// dot. The picture's name is the file's.
void read_pictures_with_texts(const sources::SourceFiles& source, const CaptionColumns& columns,
                              messages::Collector& collector, const ReadHooks& hooks);

}  // namespace pipeline::picture_texts
