#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "tokenizer/bert_text.hpp"
#include "tokenizer/word_model.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;
using strict_json::excerpt;

constexpr const char* kContinues = "##";  // begins a token within a word

bool continues_character(char byte) { return (byte & 0xc0) == 0x80; }

class WordPiece : public WordModel {
 public:
  WordPiece(const Section& file, const Section& config) {
    const Section model = file.part("model");
    model.require("continuing_subword_prefix", {kContinues});
    if (const json& most = model.get("max_input_chars_per_word"); !most.is_null()) {
      if (!most.is_number_unsigned())
        throw TokenizerError(model.place("max_input_chars_per_word") + " = " + excerpt(most) +
                             ": must be a number of characters");
      most_characters_ = most.get<size_t>();
    }
    const json& vocabulary = model.get("vocab");
    const std::string place = model.place("vocab");
    if (!vocabulary.is_object()) throw TokenizerError(place + ": must be an object of ids by token");
    for (const auto& [token, id] : vocabulary.items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocabulary.size() || token.empty())
        throw TokenizerError(place + ": id of " + excerpt(token) + " = " + excerpt(id) +
                             ": must be an integer below " + std::to_string(vocabulary.size()) +
                             ", as so many tokens are there");
      add(token, id.get<uint64_t>(), place);
    }
    require_all(place);
    unknown_ = required(read_named_token(model, "unk_token"), model.place("unk_token"));
    const Section text = file.part("normalizer");
    text.require_given("type", {"BertNormalizer"});
    const auto flag = [&](const char* key, bool otherwise) {
      text.require(key, {true, false});
      return text.get(key).is_null() ? otherwise : text.get(key).get<bool>();
    };
    how_ = {.cleans = flag("clean_text", true),
            .parts_ideographs = flag("handle_chinese_chars", true),
            .strips_accents = true,
            .lowers = flag("lowercase", true)};
    how_.strips_accents = flag("strip_accents", how_.lowers);
    file.part("pre_tokenizer").require_given("type", {"BertPreTokenizer"});
    require_same_text(config);
    index();
  }

  // A line is a token, and its number the id.
  WordPiece(const NamedText& vocabulary, const Section& config) {
    config.require("tokenizer_class", {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer",
                                       "DistilBertTokenizerFast", "PreTrainedTokenizerFast"});
    config.require("do_basic_tokenize", {true});
    config.require("word_tokenizer_type", {"basic"});
    config.require("subword_tokenizer_type", {"wordpiece"});
    std::istringstream text(vocabulary.text);
    uint64_t id = 0;
    for (std::string line; std::getline(text, line); ++id) {
      if (line.ends_with('\r')) line.pop_back();
      const std::string place = vocabulary.path + ":" + std::to_string(id + 1);
      if (line.empty()) throw TokenizerError(place + ": is empty: must be a token");
      add(line, id, place);
    }
    const auto flag = [&](const char* key, bool otherwise) {
      const json& set = config.get(key);
      return set.is_boolean() ? set.get<bool>() : otherwise;
    };
    how_.lowers = flag("do_lower_case", true);
    how_.strips_accents = flag("strip_accents", how_.lowers);
    how_.parts_ideographs = flag("tokenize_chinese_chars", true);
    const std::string named = read_named_token(config, "unk_token");
    unknown_ = required(named.empty() ? "[UNK]" : named, vocabulary.path);
    index();
  }

  std::string normalized(std::string_view text) const override { return how_.normalized(text); }
  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    each_bert_word(text, [&](std::string_view word) { encode_word(word, ids); });
  }
  std::string text_of(int32_t id, bool is_special) const override {
    const std::string& token = tokens()[static_cast<size_t>(id)];
    const std::string_view sign = kContinues;
    return token.starts_with(sign) && !is_special ? token.substr(sign.size()) : " " + token;
  }
  void hash(Fingerprint& hash) const override {
    hash.add("WordPiece");
    for (const uint64_t number :
         {static_cast<uint64_t>(unknown_), uint64_t{how_.cleans}, uint64_t{how_.parts_ideographs},
          uint64_t{how_.strips_accents}, uint64_t{how_.lowers}, uint64_t{most_characters_}})
      hash.add(number);
  }

 private:
  // Where the tokenizer's class in transformers would make other texts of a text than tokenizer.json does.
  void require_same_text(const Section& config) const {
    const auto is = [&](const char* key, bool value, const char* part) {
      const json& set = config.get(key);
      if (set.is_boolean() && set != value)
        throw TokenizerError(config.place(key) + " = " + set.dump() + ": tokenizer.json has " + part + " = " +
                             json(value).dump() + ": save the tokenizer again, so that both say the same");
    };
    is("do_lower_case", how_.lowers, "lowercase");
    is("strip_accents", how_.strips_accents, "strip_accents");
    is("tokenize_chinese_chars", how_.parts_ideographs, "handle_chinese_chars");
  }

  void index() {
    const std::string_view sign = kContinues;
    for (const auto& [token, id] : numbers_) {
      if (token.starts_with(sign)) within_.emplace(token.substr(sign.size()), id);
      most_bytes_ = std::max(most_bytes_, token.size());
    }
  }

  // A word's tokens, each the longest that there is; or the unknown one.
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const {
    const size_t before = ids.size();
    const auto characters = static_cast<size_t>(
        std::ranges::count_if(word, [](char byte) { return !continues_character(byte); }));
    bool is_known = characters <= most_characters_;
    for (size_t at = 0; is_known && at < word.size();) {
      const Numbers& among = at == 0 ? numbers_ : within_;
      size_t bytes = std::min(most_bytes_, word.size() - at);
      for (; bytes > 0; --bytes) {
        if (at + bytes < word.size() && continues_character(word[at + bytes])) continue;
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
    ids.push_back(unknown_);
  }

  BertText how_;
  Numbers within_;  // of tokens that continue a word, without the sign for that
  size_t most_bytes_ = 0, most_characters_ = 100;
  int32_t unknown_ = -1;
};

}  // namespace

std::unique_ptr<WordModel> word_piece(const Section& file, const Section& config) {
  return std::make_unique<WordPiece>(file, config);
}

std::unique_ptr<WordModel> word_piece(const NamedText& vocabulary, const Section& config) {
  return std::make_unique<WordPiece>(vocabulary, config);
}

}  // namespace pipeline::tokenizer
