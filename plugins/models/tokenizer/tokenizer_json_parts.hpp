// The parts of a tokenizer.json around the model.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "tokenizer/vocabulary.hpp"

namespace pipeline::tokenizer {

// A table of the file, with the means to name its members in errors.
class Section {
 public:
  // `limit`: why options are refused.
  Section(const nlohmann::json& value, std::string place,
          const char* limit = "only the byte-level BPE of GPT-2, SmolLM, Llama 3, Qwen and CLIP is read here")
      : value_(value), place_(std::move(place)), limit_(limit) {
    if (!value_.is_object())
      throw TokenizerError(place_ + " = " + strict_json::excerpt(value_) + ": must be an object");
  }

  // null where the key is missing.
  const nlohmann::json& get(const char* key) const {
    static const nlohmann::json null;
    const auto found = value_.find(key);
    return found == value_.end() ? null : *found;
  }

  std::string place(const std::string& key) const {
    return place_ + (place_.ends_with(":") ? " " : ".") + key;
  }

  // The object under `key`.
  Section part(const char* key) const { return {get(key), place(key), limit_}; }

  // The option must be one of `allowed`, or null or missing.
  void require(const char* key, std::initializer_list<nlohmann::json> allowed) const {
    if (!get(key).is_null()) require_given(key, allowed);
  }

  // The option must be one of `allowed`.
  void require_given(const char* key, std::initializer_list<nlohmann::json> allowed) const {
    const nlohmann::json& value = get(key);
    std::string list;
    for (const nlohmann::json& option : allowed) {
      if (value == option) return;
      list += (list.empty() ? "" : " or ") + strict_json::excerpt(option);
    }
    throw TokenizerError(place(key) + " = " + strict_json::excerpt(value) + ": must be " +
                         (list.empty() ? "null" : list) + ": " + limit_);
  }

 private:
  const nlohmann::json& value_;
  std::string place_;
  const char* limit_;
};

// The token that a file names under `key`: its text, or an object with that; empty: none.
std::string read_named_token(const Section& file, const char* key);

// How an added token is found: its flags, missing ones as `tokenizers` takes them.
Matching read_matching(const Section& token);
nlohmann::json format_added(int32_t id, std::string_view text, const Matching& how);

// CLIP's own parts, around a model with the suffix of a word's end: throws TokenizerError unless all are as
// they are there.
void require_clip_parts(const Section& file);
nlohmann::json clip_normalizer();

// What cuts a text into pieces: `pre_tokenizer`.
PreTokenizer read_pre_tokenizer(const Section& file);
nlohmann::json format_pre_tokenizer(PreTokenizer kind);

// What is added to the tokens of a text, `post_processor`: special tokens; empty: none.
struct TextEnds {
  std::string begin, end;

  bool is_none() const { return begin.empty() && end.empty(); }
};
TextEnds read_post_processor(const Section& file);
TextEnds read_clip_post_processor(const Section& file);
nlohmann::json format_post_processor(const Vocabulary& vocabulary);
// Puts `token` before every text.
nlohmann::json begin_with(const std::string& token, int32_t id);

}  // namespace pipeline::tokenizer
