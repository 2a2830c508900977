#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "tokenizer/bpe_model.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/sentence_piece_model.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json_parts.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;
using strict_json::excerpt;

constexpr const char* kJsonLimit = "the tokenizer.json of Llama 1 and 2 has no other";
constexpr uint32_t kSpaceSignValue = 0x2581;

// The byte that a piece such as "<0x0A>" stands for, -1 for others.
int byte_of(const std::string& piece) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  const size_t high = kHex.find(piece[3]), low = kHex.find(piece[4]);
  return high == kHex.npos || low == kHex.npos ? -1 : static_cast<int>(16 * high + low);
}

// The two pieces of a merge, in the newer form or in that before tokenizers 0.20.
std::pair<std::string, std::string> read_merge(const json& merge, const std::string& place) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    if (const size_t space = text.find(' ');
        space != text.npos && space > 0 && space + 1 < text.size() && text.find(' ', space + 1) == text.npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  throw TokenizerError(place + " = " + excerpt(merge) + ": must be two tokens");
}

std::vector<Merge> read_merges(const Section& model, const std::unordered_map<std::string, int32_t>& ids) {
  const json& list = model.get("merges");
  if (!list.is_array()) throw TokenizerError(model.place("merges") + ": must be a list");
  std::vector<Merge> merges;
  std::unordered_set<uint64_t> pairs;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = model.place("merges[" + std::to_string(i) + "]");
    const auto [left, right] = read_merge(list[i], place);
    const auto id = [&](const std::string& piece) {
      if (const auto found = ids.find(piece); found != ids.end()) return found->second;
      throw TokenizerError(place + ": " + excerpt(piece) + " is not in the vocabulary");
    };
    merges.push_back({id(left), id(right), id(left + right)});
    const Merge& merge = merges.back();
    if (!pairs.insert(uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right))
             .second)
      throw TokenizerError(place + " = " + excerpt(list[i]) + ": is there twice");
  }
  return merges;
}

// SentencePiece's BPE in Hugging Face's tokenizer.json, as folders of Llama 1 and 2 have it without a
// tokenizer.model: characters, and bytes of those that are unknown, become tokens, which merge across the
// whole text.
class CharacterBpe final : public Pieces {
 public:
  CharacterBpe(const json& object, const std::string& path) {
    const Section file(object, path + ":", kJsonLimit);
    const Section model = file.part("model");
    model.require("type", {"BPE"});
    model.require("dropout", {0.0});
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) model.require(key, {""});
    model.require("ignore_merges", {false});
    for (const char* key : {"fuse_unk", "byte_fallback"}) model.require(key, {false, true});
    fuses_unknown_ = model.get("fuse_unk") == true;
    read_prefix(file);

    const Ids ids = read_tokens(file, model);
    pairs_ = PairTable(read_merges(model, ids));
    const auto find = [&](const std::string& piece) {
      const auto found = ids.find(piece);
      return found == ids.end() ? -1 : found->second;
    };
    if (const json& token = model.get("unk_token"); !token.is_null()) {
      if (token.is_string()) unknown = find(token.get<std::string>());
      if (unknown < 0)
        throw TokenizerError(model.place("unk_token") + " = " + excerpt(token) + ": must be a token");
    }
    const auto [first, last] = read_post_processor(file);
    const auto special = [&](const std::string& piece) {
      const int32_t id = find(piece);
      return id >= 0 && is_special[static_cast<size_t>(id)] ? id : -1;
    };
    adds_begin = !first.empty();
    adds_end = !last.empty();
    begin = special(adds_begin ? first : "<s>");  // "<s>" and "</s>" are transformers' for Llama
    end = special(last.empty() ? "</s>" : last);
    for (const auto& [token, id] : {std::pair(first, begin), {last, end}})
      if (!token.empty() && id < 0)
        throw TokenizerError(file.place("post_processor") + ": adds " + excerpt(token) +
                             ", which is not among the added_tokens");
  }

  std::vector<int> encode(std::string_view text, TextPlace place) const override {
    std::vector<int> ids;
    if (text.empty()) return ids;
    std::string small;
    if (lowers_) text = small = lowered(text);
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() + 1);
    const auto append = [&](uint32_t value, std::string_view character) {
      const auto known = characters_.find(value);
      known != characters_.end() ? tokens.push_back(known->second) : append_unknown(character, tokens);
    };
    const bool has_space = text.starts_with(' ') || text.starts_with(kSpaceSign);
    if (place == TextPlace::kStart &&
        (prefix_ == Prefix::kAlways || (prefix_ == Prefix::kUnlessThere && !has_space)))
      append(kSpaceSignValue, kSpaceSign);
    const char* const end_of_text = text.data() + text.size();
    for (const char* p = text.data(); p != end_of_text;) {
      const CodePoint character = decode_utf8(p, end_of_text);
      if (character.value == ' ')
        append(kSpaceSignValue, kSpaceSign);
      else
        append(character.value, {p, character.bytes});
      p += character.bytes;
    }
    merge_all(pairs_, tokens, ids);
    return ids;
  }

 private:
  // The sign before a text that starts: as Metaspace puts it, not before one that begins with a space; or, as
  // the normalizer Prepend does, always.
  enum class Prefix { kNone, kUnlessThere, kAlways };

  using Ids = std::unordered_map<std::string, int32_t>;

  void read_prefix(const Section& file) {
    const Section decoder = file.part("decoder");
    const json& parts = decoder.get("decoders");
    adds_space = parts == sentence_piece_decoder(true)["decoders"];
    if (!adds_space && parts != sentence_piece_decoder(false)["decoders"])
      throw TokenizerError(
          decoder.place("decoders") + " = " + excerpt(parts) +
          ": must be Replace, ByteFallback, Fuse, and Strip where a space is put before a text: " +
          kJsonLimit);

    if (!file.get("pre_tokenizer").is_null()) {
      const Section spaces = file.part("pre_tokenizer");
      spaces.require_given("type", {"Metaspace", "Split"});
      if (spaces.get("type") == "Split") {  // Gemma's, which finds nothing: no space is left by then
        spaces.require_given("pattern", {{{"String", " "}}});
        spaces.require_given("behavior", {"MergedWithPrevious"});
        spaces.require("invert", {false});
        const json signs = sentence_piece_normalizer(false);
        const json small = {{"type", "Sequence"},
                            {"normalizers", json::array({{{"type", "Lowercase"}}, signs})}};
        file.require_given("normalizer", {signs, small});  // SigLIP 2's texts are in small letters
        lowers_ = file.get("normalizer") == small;
        prefix_ = Prefix::kNone;
        after_special = TextPlace::kWithin;
        return;
      }
      spaces.require_given("replacement", {std::string(kSpaceSign)});
      spaces.require_given("split", {false});
      spaces.require_given("prepend_scheme", {"always", "first", "never"});
      file.require("normalizer", {});
      const json& scheme = spaces.get("prepend_scheme");
      prefix_ = scheme == "never" ? Prefix::kNone : Prefix::kUnlessThere;
      after_special = scheme == "always" ? TextPlace::kStart : TextPlace::kWithin;
      return;
    }
    const json each = sentence_piece_normalizer(true);
    file.require_given("normalizer", {each, sentence_piece_normalizer(false)});
    prefix_ = file.get("normalizer") == each ? Prefix::kAlways : Prefix::kNone;
    after_special = prefix_ == Prefix::kAlways ? TextPlace::kStart : TextPlace::kWithin;
  }

  // Fills in what is known of each token; gives back the ids of the model's own.
  Ids read_tokens(const Section& file, const Section& model) {
    const json &vocab = model.get("vocab"), &added = file.get("added_tokens");
    if (!vocab.is_object())
      throw TokenizerError(model.place("vocab") + ": must be an object of ids by token");
    if (!added.is_null() && !added.is_array())
      throw TokenizerError(file.place("added_tokens") + " = " + excerpt(added) + ": must be a list");
    std::vector<std::string> texts;  // by id
    std::vector<bool> special;
    const auto add = [&](const std::string& token, const json& id, const std::string& place, bool is_added) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= vocab.size() + added.size())
        throw TokenizerError(place + ": id of " + excerpt(token) + " = " + excerpt(id) +
                             ": must be a token's number, without holes between them");
      const auto at = id.get<size_t>();
      if (at >= texts.size()) texts.resize(at + 1), special.resize(at + 1);
      if (token.empty()) throw TokenizerError(place + ": a token is empty");
      if (!texts[at].empty() && texts[at] != token)
        throw TokenizerError(place + ": " + excerpt(token) + " has id " + std::to_string(at) + ", which is " +
                             excerpt(texts[at]));
      texts[at] = token;
      special[at] = special[at] || is_added;
      return static_cast<int32_t>(at);
    };

    Ids ids;
    for (const auto& [token, id] : vocab.items()) ids[token] = add(token, id, model.place("vocab"), false);
    for (size_t i = 0; i < added.size(); ++i) {
      const Section token(added[i], file.place("added_tokens[" + std::to_string(i) + "]"), kJsonLimit);
      Matching how = read_matching(token);
      if (how.is_special) how.is_normalized = false;  // transformers overrules it, too
      if (how.is_normalized && (prefix_ == Prefix::kAlways || lowers_))
        throw TokenizerError(
            token.place("normalized") + " = true: the normalizer " +
            (lowers_ ? "makes the letters of this token small" : "puts a space before this token") +
            ", too: set it to false");
      const json& content = token.get("content");
      if (!content.is_string())
        throw TokenizerError(token.place("content") + " = " + excerpt(content) + ": must be a string");
      if (const auto known = ids.find(content.get_ref<const std::string&>());
          known != ids.end() && token.get("id") != known->second)
        throw TokenizerError(token.place("id") + " = " + excerpt(token.get("id")) + ": " + excerpt(content) +
                             " has " + std::to_string(known->second) + " in the vocabulary");
      matching[add(content, token.get("id"), token.place("content"), true)] = how;
    }

    byte_ids_.fill(-1);
    const bool falls_back = model.get("byte_fallback") == true;
    for (size_t id = 0; id < texts.size(); ++id) {
      const std::string& token = texts[id];
      if (token.empty())
        throw TokenizerError(model.place("vocab") + ": no token has id " + std::to_string(id) +
                             ": the ids of " + "a tokenizer must have no holes");
      is_special.push_back(special[id]);
      const int byte = byte_of(token);
      bytes.push_back(special[id] ? token
                      : byte >= 0 ? std::string(1, static_cast<char>(byte))
                                  : with_spaces(token));
      if (!ids.contains(token)) continue;
      if (byte >= 0 && falls_back) byte_ids_[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
      const CodePoint first = decode_utf8(token.data(), token.data() + token.size());
      if (first.bytes == token.size()) characters_[first.value] = static_cast<int32_t>(id);
    }
    return ids;
  }

  void append_unknown(std::string_view character, std::vector<int32_t>& tokens) const {
    const size_t before = tokens.size();
    for (const char byte : character) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
      if (id < 0) {
        tokens.resize(before);
        if (unknown >= 0 && !(fuses_unknown_ && before > 0 && tokens.back() == unknown))
          tokens.push_back(unknown);
        return;
      }
      tokens.push_back(id);
    }
  }

  std::unordered_map<uint32_t, int32_t> characters_;  // tokens by code point
  std::array<int32_t, 256> byte_ids_{};               // -1: none
  PairTable pairs_{std::span<const Merge>()};
  Prefix prefix_ = Prefix::kNone;
  bool fuses_unknown_ = false, lowers_ = false;
};

}  // namespace

bool is_character_bpe(const NamedText& file) {
  // Others need no second reading: what has no such sign is not of this kind.
  if (file.text.find(kSpaceSign) == file.text.npos && file.text.find(R"(\u2581)") == file.text.npos)
    return false;
  // Without what may be a million entries of tokens, and what is nested so deep that it is none of these.
  constexpr int kDeepest = 32;
  const auto is_wanted = [](int depth, json::parse_event_t event, const json& value) {
    return depth < kDeepest && (event != json::parse_event_t::key || (value != "vocab" && value != "merges"));
  };
  const json object = json::parse(file.text, is_wanted, /*allow_exceptions=*/false);
  const auto is = [&](const char* part, const char* key, const json& value) {
    return object.is_object() && object.contains(part) && object[part].is_object() &&
           object[part].contains(key) && object[part][key] == value;
  };
  return is("model", "type", "BPE") &&
         (is("model", "byte_fallback", true) || is("pre_tokenizer", "type", "Metaspace") ||
          object.value("normalizer", json()).dump().find(kSpaceSign) != std::string::npos);
}

std::unique_ptr<const Pieces> character_bpe(const json& file, const std::string& path) {
  return std::make_unique<const CharacterBpe>(file, path);
}

}  // namespace pipeline::tokenizer
