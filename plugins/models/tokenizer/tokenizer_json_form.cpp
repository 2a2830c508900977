// tokenizer.json and tokenizer_config.json.

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json_parts.hpp"
#include "tokenizer/vocabulary.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;
using strict_json::excerpt;

// A part of the file that is byte-level or missing.
void require_byte_level(const Section& file, const char* key) {
  if (const json& value = file.get(key); !value.is_null())
    Section(value, file.place(key)).require_given("type", {"ByteLevel"});
}

// A word of the vocabulary becomes an added token, as transformers makes one of what its files name; -1:
// there is no such word.
int32_t add_word(const std::string& text, Vocabulary& vocabulary) {
  const std::vector<std::string> texts = token_texts(vocabulary);
  const auto found = std::find(texts.begin(), texts.end(), text);
  if (found == texts.end()) return -1;
  const auto id = static_cast<int32_t>(found - texts.begin());
  vocabulary.tokens[static_cast<size_t>(id)] = text;
  const auto place = std::find_if(vocabulary.added.begin(), vocabulary.added.end(),
                                  [&](const Added& one) { return one.id > id; });
  vocabulary.added.insert(place, {id, text, {}});
  return id;
}

// The id of a token that a config names; -1: none.
int32_t read_boundary(const Section& config, const char* key, Vocabulary& vocabulary, bool may_lack) {
  if (config.get(key).is_null()) return -1;
  const std::string word = read_named_token(config, key);
  if (const int32_t id = special_token(vocabulary, word); id >= 0) return id;
  if (const int32_t id = add_word(word, vocabulary); id >= 0 || may_lack) return id;
  throw TokenizerError(config.place(key) + " = " + excerpt(word) +
                       ": is not a token of the tokenizer: add it there, or name another");
}

void read_boundaries(const Section& config, Vocabulary& vocabulary, bool may_lack = false) {
  // Named or not, what the vocabulary says by itself is one and the same tokenizer, with one state.
  const int32_t end = read_boundary(config, "eos_token", vocabulary, may_lack);
  if (end >= 0 && end != end_of_text(vocabulary)) vocabulary.end_of_text = end;
  const int32_t id = read_boundary(config, "bos_token", vocabulary, may_lack);
  if (id >= 0 && !vocabulary.adds_begin_of_text) vocabulary.begin_of_text = id;
  // Both are special, also where the list of added tokens has them as words like others.
  for (Added& added : vocabulary.added)
    if (added.id == end || added.id == id) added.how.is_special = true;
}

// The members eos_token and bos_token, where the files have named them.
json format_boundaries(const Vocabulary& vocabulary) {
  json members = json::object();
  const auto add = [&](const char* key, int32_t id) {
    if (id >= 0) members[key] = vocabulary.tokens[static_cast<size_t>(id)];
  };
  add("eos_token", vocabulary.end_of_text);
  add("bos_token", vocabulary.begin_of_text);
  return members;
}

void add_added_tokens(const Section& file, VocabularyBuilder& builder) {
  const json& list = file.get("added_tokens");
  if (list.is_null()) return;
  if (!list.is_array())
    throw TokenizerError(file.place("added_tokens") + " = " + excerpt(list) + ": must be a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const Section token(list[i], file.place("added_tokens[" + std::to_string(i) + "]"));
    const Matching how = read_matching(token);
    const json& content = token.get("content");
    const json& id = token.get("id");
    if (!content.is_string())
      throw TokenizerError(token.place("content") + " = " + excerpt(content) + ": must be a string");
    if (!id.is_number_unsigned()) {
      throw TokenizerError(token.place("id") + " = " + excerpt(id) + ": must be a non-negative integer");
    }
    builder.add_added(content.get<std::string>(), id_of(id), how, token.place("content"));
  }
}

void add_merges(const Section& model, VocabularyBuilder& builder) {
  const json& merges = model.get("merges");
  if (!merges.is_array()) throw TokenizerError(model.place("merges") + ": must be a list");
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto place = [&] { return model.place("merges[" + std::to_string(i) + "]"); };
    const json& merge = merges[i];
    if (merge.is_string()) {  // as written before tokenizers 0.20
      add_merge_text(merge.get_ref<const std::string&>(), place, builder);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      builder.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(),
                        place);
    } else {
      throw TokenizerError(place() + " = " + excerpt(merge) + ": must be two tokens");
    }
  }
}

Vocabulary parse_object(const Section& file) {
  const Section model(file.get("model"), file.place("model"));
  model.require("type", {"BPE"});  // first: what another kind has around it does not matter
  model.require("end_of_word_suffix", {"", kWordEnd});
  const bool is_clip = model.get("end_of_word_suffix") == kWordEnd;
  const bool is_composed = !file.get("normalizer").is_null();
  if (is_clip)
    require_clip_parts(file);
  else if (is_composed)
    file.part("normalizer").require_given("type", {"NFC"});
  require_byte_level(file, "decoder");
  const auto [begin, end] = is_clip ? read_clip_post_processor(file) : read_post_processor(file);

  model.require("dropout", {0.0});
  model.require("continuing_subword_prefix", {""});
  model.require("byte_fallback", {false});
  model.require("ignore_merges", {false, true});

  VocabularyBuilder builder(is_clip ? PreTokenizer::kClip : read_pre_tokenizer(file));
  add_added_tokens(file, builder);
  add_vocab(model.get("vocab"), model.place("vocab"), builder);
  if (!builder.has_all_bytes()) model.require("unk_token", {});
  add_merges(model, builder);
  Vocabulary vocabulary = builder.finish();
  vocabulary.ignore_merges = model.get("ignore_merges") == true;
  vocabulary.is_composed = is_composed;
  const auto added = [&](const std::string& token) {
    const int32_t id = special_token(vocabulary, token);
    if (id < 0)
      throw TokenizerError(file.place("post_processor") + ": adds " + excerpt(token) +
                           ", which is not among the added_tokens");
    return id;
  };
  if (!end.empty()) vocabulary.added_end = vocabulary.end_of_text = added(end);
  if (begin.empty()) return vocabulary;
  vocabulary.begin_of_text = added(begin);
  vocabulary.adds_begin_of_text = true;
  return vocabulary;
}

}  // namespace

Vocabulary parse_tokenizer_json(const NamedText& text) {
  const json object = parse_tokenizer_file(text);
  return parse_object(Section(object, text.path + ":"));
}

void end_texts_with(const std::string& folder, const std::string& token, int32_t id) {
  const std::filesystem::path path = std::filesystem::path(folder) / kTokenizerJson;
  if (!is_there(path)) return;
  nlohmann::ordered_json file = nlohmann::ordered_json::parse(read_file(path).text);
  const nlohmann::ordered_json offsets = file.value("post_processor", nlohmann::ordered_json());
  if (!offsets.is_object() || offsets.value("type", "") != "ByteLevel") return;
  const auto part = [](const char* kind, const std::string& name, int type) {
    return nlohmann::ordered_json{{kind, {{"id", name}, {"type_id", type}}}};
  };
  const auto end = [&](int type) { return part("SpecialToken", token, type); };
  file["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {offsets,
        {{"type", "TemplateProcessing"},
         {"single", {part("Sequence", "A", 0), end(0)}},
         {"pair", {part("Sequence", "A", 0), end(0), part("Sequence", "B", 1), end(1)}},
         {"special_tokens", {{token, {{"id", token}, {"ids", {id}}, {"tokens", {token}}}}}}}}}};
  write_file(path, file.dump());
}

std::string format_tokenizer_json(const Vocabulary& vocabulary) {
  json added = json::array();
  for (const Added& token : vocabulary.added) added.push_back(format_added(token.id, token.text, token.how));
  const std::vector<std::string> texts = token_texts(vocabulary);
  std::string merges;  // one string each: readable by every version of tokenizers
  for (const Merge& merge : vocabulary.merges) {
    const std::string pair =
        texts[static_cast<size_t>(merge.left)] + " " + texts[static_cast<size_t>(merge.right)];
    merges += (merges.empty() ? "" : ", ") + json(pair).dump();
  }
  const json decoder = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  // Written in the order that Hugging Face writes it; the offsets' options are those of its GPT-2.
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": )" + added.dump() +
         R"(, "normalizer": )" +
         (vocabulary.ends_words()  ? clip_normalizer().dump()
          : vocabulary.is_composed ? R"({"type": "NFC"})"
                                   : "null") +
         R"(, "pre_tokenizer": )" + format_pre_tokenizer(vocabulary.pre_tokenizer).dump() +
         R"(, "post_processor": )" + format_post_processor(vocabulary).dump() + R"(, "decoder": )" +
         decoder.dump() +
         R"(, "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "", )" +
         R"("end_of_word_suffix": ")" + (vocabulary.ends_words() ? kWordEnd : "") +
         R"(", "fuse_unk": false, "byte_fallback": false, "ignore_merges": )" +
         (vocabulary.ignore_merges ? "true" : "false") + R"(, "vocab": )" + format_vocab_json(vocabulary) +
         R"(, "merges": [)" + merges + "]}}";
}

void read_special_tokens(const NamedText& file, Vocabulary& vocabulary) {
  const json object = parse_tokenizer_file(file);
  read_boundaries(Section(object, file.path + ":"), vocabulary, /*may_lack=*/true);
}

void read_tokenizer_config(const NamedText& file, Vocabulary& vocabulary) {
  const json object = parse_tokenizer_file(file);
  const Section config(object, file.path + ":");
  config.require("add_prefix_space", {false});
  const json& added = config.get("added_tokens_decoder");
  if (!added.is_null() && !added.is_object())
    throw TokenizerError(config.place("added_tokens_decoder") + " = " + excerpt(added) +
                         ": must be an object");
  std::unordered_map<std::string_view, std::string> ids;
  for (const Added& token : vocabulary.added) ids.emplace(token.text, std::to_string(token.id));
  for (const auto& [id, token] :
       added.items()) {  // transformers adds those that tokenizer.json does not have
    const std::string place = config.place("added_tokens_decoder." + id);
    const json& content = Section(token, place).get("content");
    const auto known = content.is_string() ? ids.find(content.get_ref<const std::string&>()) : ids.end();
    if (known == ids.end() || known->second != id)
      throw TokenizerError(
          place + ".content = " + excerpt(content) +
          ": is not among the added tokens of tokenizer.json with this id: save the tokenizer again");
  }
  read_boundaries(config, vocabulary);
}

// Names a class that reads tokenizer.json as it is, whatever the model's own class would make of it.
std::string format_tokenizer_config(const Vocabulary& vocabulary) {
  json config = format_boundaries(vocabulary);
  if (const int32_t end = end_of_text(vocabulary); end >= 0)
    config["eos_token"] = vocabulary.tokens[static_cast<size_t>(end)];
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["clean_up_tokenization_spaces"] = false;
  return config.dump(2) + "\n";
}

Vocabulary parse_tokenizer_state(const NamedText& state) {
  const json object = parse_tokenizer_file(state);
  const Section file(object, state.path + ":");
  Vocabulary vocabulary = parse_object(file);
  read_boundaries(file, vocabulary);
  return vocabulary;
}

std::string format_tokenizer_state(const Vocabulary& vocabulary) {
  std::string text = format_tokenizer_json(vocabulary);
  const json boundaries = format_boundaries(vocabulary);
  for (const auto& [key, token] : boundaries.items())
    text.insert(text.size() - 1, ", \"" + key + "\": " + token.dump());
  return text;
}

}  // namespace pipeline::tokenizer
