// Pictures with text, as conversations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/files/error.hpp"
#include "plugins/data/text_pairs/pairs.hpp"

namespace pipeline::vlm {

using files::DataError;

// Where the picture stands in a turn's text.
inline constexpr std::string_view kImageMark = "<image>";

struct Turn {
  bool assistant = false;
  std::string text;
};

// Turns of user and assistant, alternating, the user's first; the last is the assistant's, or a question to
// be answered. Exactly one of the user's turns has the mark where there is a picture, none where there is
// not. A caption is a conversation in which the user says nothing but the mark.
struct Conversation {
  std::string id;
  std::string image;  // as in the file: a path, or a name within an archive; empty: no picture
  std::vector<Turn> turns;

  // The last question: its turn is 2 * this.
  size_t last_question() const { return (turns.size() - 1) / 2; }

  // What conversations that belong to one part of the data have in common: the picture, however its path in
  // the folder `images` is written, else the first question.
  std::string content(const std::filesystem::path& images) const;

  std::string pack() const;
  static Conversation unpack(std::string_view bytes);  // throws DataError
};

// What became of a file's records.
struct ReadReport {
  struct Drop {
    uint64_t count = 0;
    std::string first;  // where, for people
  };
  uint64_t records = 0, used = 0;
  std::map<std::string, Drop> drops;  // by reason
  std::string notes;                  // lines for the log: how the file was read

  void drop(const std::string& reason, const std::string& where);
  // Lines for the log; empty if nothing was dropped.
  std::string table(const std::string& path) const;
};

// What the columns of captions are called, and what must be there.
struct CaptionColumns {
  std::string image = "image", caption = "caption";
  std::string question = "question";  // where a record has one, the caption is the answer to it
  std::string id;                     // empty: "id" if present, else numbered
  // In test files for predictions the caption may be missing, and so may the last answer of a conversation.
  bool answer_required = true;
  text_pairs::Quotes quotes = text_pairs::Quotes::kAuto;
};

// What the user says of a picture: the mark, and before a question that does not have it.
std::string ask_about_picture(const std::string& question);

// Adds it to the report, and to what is read unless it cannot be used. `where`: for people.
void take_conversation(Conversation&& conversation, bool answer_required, const std::string& where,
                       const std::function<void(Conversation&&)>& sink, ReadReport& report);

struct ReadHooks {
  std::function<void(uint64_t)> on_bytes;  // read so far, often; may throw to stop
};

// Reads a file in order. *.json and *.jsonl, a list or an object a line, hold conversations
// (turn_records.hpp) such as LLaVA's {"id", "image", "conversations": [{"from": "human" | "gpt", "value"}]},
// or captions and questions, as *.csv and *.tsv do;
// *.tar, or a folder of such, is WebDataset's form (shards.hpp). Records that cannot be used are dropped and
// counted. Throws DataError where the file cannot be read or has nothing usable. Memory is that of a record.
void read_conversations(const std::string& path, const CaptionColumns& columns,
                        const std::function<void(Conversation&&)>& sink, ReadReport& report,
                        const ReadHooks& hooks = {});

}  // namespace pipeline::vlm
