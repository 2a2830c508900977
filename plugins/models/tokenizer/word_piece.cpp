#include "tokenizer/word_piece.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/bert_text.hpp"
#include "tokenizer/tokenizer_json_parts.hpp"

namespace pipeline::tokenizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using strict_json::excerpt;

constexpr const char *kVocabulary = "vocab.txt", *kOnlyBerts = "only the WordPiece of BERT is read here";
constexpr const char* kContinues = "##";  // begins a token within a word

// What BERT's vocabularies call their special tokens, where no file does.
constexpr std::pair<const char*, const char*> kSpecial[] = {{"cls_token", "[CLS]"},
                                                            {"sep_token", "[SEP]"},
                                                            {"unk_token", "[UNK]"},
                                                            {"pad_token", "[PAD]"},
                                                            {"mask_token", "[MASK]"}};

bool has_word_piece(const NamedText& file) {
  if (file.text.find("WordPiece") == file.text.npos) return false;
  const json object = parse_tokenizer_file(file);
  return object.is_object() && object.value(json::json_pointer("/model/type"), json()) == "WordPiece";
}

std::vector<std::string> lines_of(const NamedText& file) {
  std::vector<std::string> lines;
  std::istringstream text(file.text);
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Numbers = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;

// Where the tokenizer's class in transformers would make other texts of a text than tokenizer.json does.
void require_same_text(const Section& config, const BertText& text, bool has_json) {
  const auto is = [&](const char* key, bool value, const char* part) {
    const json& set = config.get(key);
    if (has_json && set.is_boolean() && set != value)
      throw TokenizerError(config.place(key) + " = " + set.dump() + ": tokenizer.json has " + part + " = " +
                           json(value).dump() + ": save the tokenizer again, so that both say the same");
  };
  is("do_lower_case", text.lowers, "lowercase");
  is("strip_accents", text.strips_accents, "strip_accents");
  is("tokenize_chinese_chars", text.parts_ideographs, "handle_chinese_chars");
}

}  // namespace

struct WordPiece::State {
  explicit State(const NamedFiles& files) : has_json(files.contains(kTokenizerJson)) {
    const auto config_file = files.find(kTokenizerConfig);
    const json values =
        config_file == files.end() ? json::object() : parse_tokenizer_file(config_file->second);
    const Section config(values, (config_file == files.end() ? kTokenizerConfig : config_file->second.path) + ":",
                         kOnlyBerts);
    TextEnds ends;
    if (has_json) {
      const NamedText& file = files.at(kTokenizerJson);
      const json object = parse_tokenizer_file(file);
      const Section all(object, file.path + ":", kOnlyBerts);
      read_json(all);
      ends = read_post_processor(all);
    } else {
      read_lines(files.at(kVocabulary), config);
    }
    require_same_text(config, how, has_json);
    const auto named = [&](const char* key, const char* otherwise) {
      const std::string name = read_named_token(config, key);
      return name.empty() ? std::string(otherwise) : name;
    };
    for (const auto& [key, usual] : kSpecial)
      if (const auto id = number_of(named(key, usual))) special[*id] = {};
    const auto id_of = [&](const std::string& name) { return number_of(name).value_or(-1); };
    bos = id_of(ends.begin.empty() ? named("cls_token", "[CLS]") : ends.begin);
    eot = id_of(ends.end.empty() ? named("sep_token", "[SEP]") : ends.end);
    adds_bos = bos >= 0 && (!has_json || !ends.begin.empty());
    std::vector<AddedTokens::Token> list;
    for (const auto& [id, matching] : special) {
      const std::string& name = tokens[static_cast<size_t>(id)];
      texts.push_back(matching.is_normalized ? how.normalized(name) : name);
      list.push_back({texts.back(), id, matching});
    }
    added = AddedTokens(std::move(list));
    Fingerprint hash;
    hash.add("WordPiece");
    for (const std::string& token : tokens) {
      hash.add(token.size());
      hash.add(token);
    }
    for (const AddedTokens::Token& token : added.all()) {
      hash.add(static_cast<uint64_t>(token.id));
      hash_matching(token.id, token.how, hash);
    }
    for (const auto number : {int64_t{unknown}, int64_t{eot}, int64_t{bos}, int64_t{adds_bos},
                              int64_t{how.cleans}, int64_t{how.parts_ideographs}, int64_t{how.strips_accents},
                              int64_t{how.lowers}, static_cast<int64_t>(most_characters)})
      hash.add(static_cast<uint64_t>(number));
    fingerprint = hash.value();
  }

  void add_token(const std::string& token, size_t id, const std::string& place) {
    if (id >= kMostTokens)
      throw TokenizerError(place + ": " + excerpt(token) + " has id " + std::to_string(id) +
                           ": must be below " + std::to_string(kMostTokens));
    if (tokens.size() <= id) tokens.resize(id + 1);
    if (!numbers.emplace(token, static_cast<int32_t>(id)).second || !tokens[id].empty())
      throw TokenizerError(place + ": " + excerpt(token) + " has id " + std::to_string(id) +
                           ": each token must have an id of its own");
    tokens[id] = token;
    if (token.starts_with(kContinues)) {
      const std::string rest = token.substr(std::string_view(kContinues).size());
      within.emplace(rest, static_cast<int32_t>(id));
      most_bytes = std::max(most_bytes, rest.size());
    }
    most_bytes = std::max(most_bytes, token.size());
  }
  void require_all(const std::string& place) const {
    for (size_t id = 0; id < tokens.size(); ++id)
      if (tokens[id].empty())
        throw TokenizerError(place + ": no token has id " + std::to_string(id) + " of " +
                             std::to_string(tokens.size()));
  }

  void read_json(const Section& file) {
    const Section model = file.part("model");
    model.require("continuing_subword_prefix", {kContinues});
    if (const json& most = model.get("max_input_chars_per_word"); most.is_number_unsigned())
      most_characters = most.get<size_t>();
    const json& vocabulary = model.get("vocab");
    const std::string place = model.place("vocab");
    if (!vocabulary.is_object()) throw TokenizerError(place + ": must be an object of ids by token");
    for (const auto& [token, id] : vocabulary.items()) {
      if (!id.is_number_unsigned() || token.empty())
        throw TokenizerError(place + ": id of " + excerpt(token) + " = " + excerpt(id) +
                             ": must be a non-negative integer");
      add_token(token, id.get<size_t>(), place);
    }
    require_all(place);
    read_added(file);
    unknown = required(read_named_token(model, "unk_token"), model.place("unk_token"));
    const Section text = file.part("normalizer");
    text.require_given("type", {"BertNormalizer"});
    const auto flag = [&](const char* key, bool otherwise) {
      text.require(key, {true, false});
      return text.get(key).is_null() ? otherwise : text.get(key).get<bool>();
    };
    how = {.cleans = flag("clean_text", true),
           .parts_ideographs = flag("handle_chinese_chars", true),
           .strips_accents = true,
           .lowers = flag("lowercase", true)};
    how.strips_accents = flag("strip_accents", how.lowers);
    file.part("pre_tokenizer").require_given("type", {"BertPreTokenizer"});
  }

  void read_added(const Section& file) {
    const json& list = file.get("added_tokens");
    for (size_t i = 0; list.is_array() && i < list.size(); ++i) {
      const Section token(list[i], file.place("added_tokens[" + std::to_string(i) + "]"), kOnlyBerts);
      const Matching matching = read_matching(token);
      const json &content = token.get("content"), &id = token.get("id");
      if (!content.is_string() || content.get_ref<const std::string&>().empty() || !id.is_number_unsigned())
        throw TokenizerError(token.place("content") + " = " + excerpt(content) +
                             ": must be a token, with its id");
      if (!numbers.contains(content.get_ref<const std::string&>()))
        add_token(content, id.get<size_t>(), token.place("content"));
      if (numbers.at(content) != id)
        throw TokenizerError(token.place("id") + " = " + id.dump() + ": " + excerpt(content) + " has id " +
                             std::to_string(numbers.at(content)) + " in model.vocab");
      special[numbers.at(content)] = matching;
    }
    require_all(file.place("added_tokens"));
  }

  // A line is a token, and its number the id.
  void read_lines(const NamedText& file, const Section& config) {
    const std::vector<std::string> lines = lines_of(file);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].empty()) throw TokenizerError(file.path + ":" + std::to_string(i + 1) + ": is empty: must be a token");
      add_token(lines[i], i, file.path + ":" + std::to_string(i + 1));
    }
    const auto flag = [&](const char* key, bool otherwise) {
      const json& set = config.get(key);
      return set.is_boolean() ? set.get<bool>() : otherwise;
    };
    how.lowers = flag("do_lower_case", true);
    how.strips_accents = flag("strip_accents", how.lowers);
    how.parts_ideographs = flag("tokenize_chinese_chars", true);
    const std::string named = read_named_token(config, "unk_token");
    unknown = required(named.empty() ? "[UNK]" : named, file.path);
  }

  int32_t required(const std::string& token, const std::string& place) const {
    if (const auto id = number_of(token)) return *id;
    throw TokenizerError(place + " = " + excerpt(token) + ": is not a token of the vocabulary");
  }
  std::optional<int32_t> number_of(std::string_view token) const {
    const auto found = numbers.find(token);
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
  }

  // A word's tokens, each the longest that there is; or the unknown one.
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const {
    const auto is_within = [](char c) { return (c & 0xc0) == 0x80; };
    const size_t before = ids.size();
    const auto characters = static_cast<size_t>(std::ranges::count_if(word, [&](char c) { return !is_within(c); }));
    bool is_known = characters <= most_characters;
    for (size_t at = 0; is_known && at < word.size();) {
      const Numbers& among = at == 0 ? numbers : within;
      size_t bytes = std::min(most_bytes, word.size() - at);
      for (; bytes > 0; --bytes) {
        if (at + bytes < word.size() && is_within(word[at + bytes])) continue;
        const auto found = among.find(word.substr(at, bytes));
        if (found == among.end()) continue;
        ids.push_back(found->second);
        break;
      }
      is_known = bytes > 0;
      at += bytes;
    }
    if (is_known) return;
    ids.resize(before);
    ids.push_back(unknown);
  }

  static constexpr size_t kMostTokens = size_t{1} << 24;
  bool has_json;
  std::vector<std::string> tokens;  // by id
  Numbers numbers, within;          // of tokens; of those that continue a word, without the sign for that
  size_t most_bytes = 0, most_characters = 100;
  BertText how;
  std::map<int32_t, Matching> special;  // and words that were added
  std::deque<std::string> texts;        // that are looked for
  AddedTokens added;
  int32_t unknown = -1, eot = -1, bos = -1;
  bool adds_bos = false;
  uint64_t fingerprint = 0;
};

fs::path WordPiece::find(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    if (path.extension() == ".json" && is_there(path) && has_word_piece(read_file(path))) return path;
    return path.extension() == ".txt" && is_there(path) ? path : fs::path();
  }
  if (is_there(path / kTokenizerJson)) return has_word_piece(read_file(path / kTokenizerJson)) ? path / kTokenizerJson : fs::path();
  return is_there(path / kVocabulary) && !has_byte_level_files(path) ? path / kVocabulary : fs::path();
}

bool WordPiece::is_kind_of(const NamedFiles& files) {
  const auto form = files.find(kTokenizerJson);
  return form == files.end() ? files.contains(kVocabulary) : has_word_piece(form->second);
}

WordPiece WordPiece::load(const fs::path& file) {
  const fs::path folder = file.parent_path();
  NamedFiles files = named(files_beside_tokenizer(folder), (folder / "").string());
  files[file.extension() == ".json" ? kTokenizerJson : kVocabulary] = read_file(file);
  if (file.extension() == ".json" && is_there(folder / kVocabulary))
    files[kVocabulary] = read_file(folder / kVocabulary);  // is written again
  return WordPiece(files);
}

WordPiece::WordPiece(const NamedFiles& files)
    : Tokenizer(texts_of(files)), state_(std::make_shared<const State>(files)) {
  facts_ = {.vocab_size = static_cast<int32_t>(state_->tokens.size()),
            .eot = state_->eot,
            .bos = state_->bos,
            .adds_bos = state_->adds_bos,
            .fingerprint = state_->fingerprint,
            .no_eot = "the tokenizer has no end of text: tokenizer_config.json names no sep_token, and there "
                      "is no [SEP]"};
}

void WordPiece::encode_append(std::string_view text, std::vector<int32_t>& ids, SpecialTokens special,
                              TextPlace /*place*/) const {
  state_->added.cut(
      text, special,
      [&](std::string_view part) {
        each_bert_word(part, [&](std::string_view word) { state_->encode_word(word, ids); });
      },
      [&](int32_t id) { ids.push_back(id); },
      [&](std::string_view part, std::string& kept) -> std::string_view {
        return kept = state_->how.normalized(part);
      });
}

std::string WordPiece::decode_bytes(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    check_id(id);
    const std::string& token = state_->tokens[static_cast<size_t>(id)];
    if (token.starts_with(kContinues) && !state_->special.contains(id))
      text += std::string_view(token).substr(std::string_view(kContinues).size());
    else
      text += " " + token;
  }
  return text;
}

std::string WordPiece::decode(std::span<const int32_t> ids) const {
  std::string text = replace_invalid_utf8(decode_bytes(ids));
  if (text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::optional<int32_t> WordPiece::special_token(std::string_view text) const {
  const auto id = state_->number_of(text);
  return id && state_->special.contains(*id) ? id : std::nullopt;
}

bool WordPiece::is_special(int64_t id) const {
  return id >= 0 && id < vocab_size() && state_->special.contains(static_cast<int32_t>(id));
}

Tokenizer::Special WordPiece::first_special(std::string_view text) const {
  return state_->added.first_special(text);
}

TokenizerPtr WordPiece::with(const Files& more) const { return Tokenizer::with(*this, more); }

void WordPiece::save(const std::string& folder) const { write_tokenizer_files(files(), folder); }

std::string WordPiece::state() const { return pack(files()); }

}  // namespace pipeline::tokenizer
