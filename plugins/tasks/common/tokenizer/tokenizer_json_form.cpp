// tokenizer.json.

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/vocabulary.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::text {
namespace {

using nlohmann::json;
using strict_json::excerpt;

// A table of the file, with the means to name its members in errors.
class Section {
 public:
  Section(const json& value, std::string place) : value_(value), place_(std::move(place)) {
    if (!value_.is_object()) throw Error(place_ + " = " + excerpt(value_) + ": must be an object");
  }

  // null where the key is missing.
  const json& get(const char* key) const {
    static const json null;
    const auto found = value_.find(key);
    return found == value_.end() ? null : *found;
  }

  std::string place(const std::string& key) const {
    return place_ + (place_.ends_with(":") ? " " : ".") + key;
  }

  // The option must be null, missing, or one of `allowed`.
  void require(const char* key, std::initializer_list<json> allowed) const {
    const json& value = get(key);
    if (value.is_null()) return;
    std::string list;
    for (const json& option : allowed) {
      if (value == option) return;
      list += (list.empty() ? "" : " or ") + excerpt(option);
    }
    throw Error(place(key) + " = " + excerpt(value) + ": must be " + (list.empty() ? "null" : list) +
                ": only GPT-2's byte-level BPE is read here");
  }

 private:
  const json& value_;
  std::string place_;
};

// A part of the file that is byte-level or missing.
void require_byte_level(const Section& file, const char* key, bool may_be_missing) {
  const json& value = file.get(key);
  if (value.is_null() && may_be_missing) return;
  const Section part(value, file.place(key));
  part.require("type", {"ByteLevel"});
  if (part.get("type").is_null()) throw Error(part.place("type") + " is missing: must be \"ByteLevel\"");
}

void add_special_tokens(const Section& file, VocabularyBuilder& builder) {
  const json& list = file.get("added_tokens");
  if (list.is_null()) return;
  if (!list.is_array()) throw Error(file.place("added_tokens") + " = " + excerpt(list) + ": must be a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const Section token(list[i], file.place("added_tokens[" + std::to_string(i) + "]"));
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) token.require(flag, {false});
    const json& content = token.get("content");
    const json& id = token.get("id");
    if (!content.is_string())
      throw Error(token.place("content") + " = " + excerpt(content) + ": must be a string");
    if (!id.is_number_unsigned()) {
      throw Error(token.place("id") + " = " + excerpt(id) + ": must be a non-negative integer");
    }
    builder.add_special(content.get<std::string>(), id_of(id), token.place("content"));
  }
}

void add_merges(const Section& model, VocabularyBuilder& builder) {
  const json& merges = model.get("merges");
  if (!merges.is_array()) throw Error(model.place("merges") + ": must be a list");
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto place = [&] { return model.place("merges[" + std::to_string(i) + "]"); };
    const json& merge = merges[i];
    if (merge.is_string()) {  // as written before tokenizers 0.20
      add_merge_text(merge.get_ref<const std::string&>(), place, builder);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      builder.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(),
                        place);
    } else {
      throw Error(place() + " = " + excerpt(merge) + ": must be two tokens");
    }
  }
}

}  // namespace

Vocabulary parse_tokenizer_json(const NamedText& text) {
  const json object = parse_tokenizer_file(text);
  const Section file(object, text.path + ":");
  file.require("normalizer", {});
  require_byte_level(file, "pre_tokenizer", false);
  const Section pre_tokenizer(file.get("pre_tokenizer"), file.place("pre_tokenizer"));
  pre_tokenizer.require("add_prefix_space", {false});
  pre_tokenizer.require("use_regex", {true});
  require_byte_level(file, "post_processor", true);
  require_byte_level(file, "decoder", true);

  const Section model(file.get("model"), file.place("model"));
  model.require("type", {"BPE"});
  model.require("dropout", {0.0});
  model.require("continuing_subword_prefix", {""});
  model.require("end_of_word_suffix", {""});
  for (const char* flag : {"byte_fallback", "ignore_merges"}) model.require(flag, {false});

  VocabularyBuilder builder;
  add_special_tokens(file, builder);
  add_vocab(model.get("vocab"), model.place("vocab"), builder);
  add_merges(model, builder);
  return builder.finish();
}

std::string format_tokenizer_json(const Vocabulary& vocabulary) {
  json added = json::array();
  for (const int32_t id : vocabulary.special) {
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[static_cast<size_t>(id)]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const std::vector<std::string> texts = token_texts(vocabulary);
  std::string merges;  // one string each: readable by every version of tokenizers
  for (const Merge& merge : vocabulary.merges) {
    const std::string pair =
        texts[static_cast<size_t>(merge.left)] + " " + texts[static_cast<size_t>(merge.right)];
    merges += (merges.empty() ? "" : ", ") + json(pair).dump();
  }
  const auto byte_level = [](bool add_prefix_space, bool trim_offsets) {
    return json{{"type", "ByteLevel"},
                {"add_prefix_space", add_prefix_space},
                {"trim_offsets", trim_offsets},
                {"use_regex", true}}
        .dump();
  };
  // Written in the order that Hugging Face writes it; the offsets' options are those of its GPT-2.
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": )" + added.dump() +
         R"(, "normalizer": null, "pre_tokenizer": )" + byte_level(false, true) + R"(, "post_processor": )" +
         byte_level(true, false) + R"(, "decoder": )" + byte_level(true, true) +
         R"(, "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "", )" +
         R"("end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": )" +
         format_vocab_json(vocabulary) + R"(, "merges": [)" + merges + "]}}";
}

}  // namespace pipeline::text
