// Conversations: who said what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plugins/data/files/error.hpp"

namespace pipeline::messages {

using files::DataError;

// The mark of a picture's place in a turn's text.
inline constexpr std::string_view kImageMark = "<image>";
size_t marks_in(std::string_view text);

// A text by itself, which no chat template stands around, is one turn of this role.
inline constexpr std::string_view kPlainText = "text";

struct Turn {
  std::string role;  // as chat templates call it: system, user, assistant, tool, ...
  std::string text;
  std::string more = {};  // the message's other members, a JSON object: tool_calls, name, ...; empty: none
  bool is_learnt = true;  // for an assistant's turn: false where "weight" is 0
  // The content as JSON where it is a list, pictures as {"type": "image"}; empty: the content is the text.
  std::string parts = {};

  bool is_assistant() const { return role == "assistant"; }
};

struct Picture {
  std::string name;   // as in the file: a path, or a name within an archive
  std::string bytes;  // of a picture that is within its record; else empty, and the name leads to it

  Picture() = default;
  Picture(std::string path) : name(std::move(path)) {}
  Picture(const char* path) : name(path) {}
  bool empty() const { return name.empty() && bytes.empty(); }
  bool operator==(const Picture&) const = default;
};

struct Conversation {
  std::string id;
  std::vector<Picture> images;  // in the order of their marks in the turns
  std::vector<Turn> turns;
  std::string more = {};  // what the record has for the chat template, a JSON object: tools; empty: none
  // What several people answered to the first question, to score with; empty: there is the turn's alone.
  std::vector<std::string> answers = {};
  // Of a pair of which this is preferred: the other, packed. Of an answer that was judged by itself: "1"
  // where it is wanted, else "0". pack() leaves it out.
  std::string other = {};

  bool is_plain_text() const { return turns.size() == 1 && turns[0].role == kPlainText; }

  // The variables of a chat template: {"messages": [...], "tools": [...]}.
  nlohmann::ordered_json variables() const;

  std::string pack() const;
  static Conversation unpack(std::string_view bytes);  // throws DataError
};

// What became of a source's records.
struct ReadReport {
  struct Drop {
    uint64_t count = 0;
    std::string first;  // where, for people
  };
  uint64_t records = 0, used = 0;
  std::map<std::string, Drop> drops;  // by reason
  std::string notes;                  // lines for the log: how the file was read

  void drop(const std::string& reason, const std::string& where, uint64_t count = 1);
  // Lines for the log; empty if nothing was dropped.
  std::string table(const std::string& path) const;
  // Throws DataError where there is no record, or none that can be used.
  void require_used(const std::string& path) const;
};

}  // namespace pipeline::messages
