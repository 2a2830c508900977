#include <utf8proc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/sentence_piece_model.hpp"
#include "tokenizer/word_model.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;
using strict_json::excerpt;

// SentencePiece's table of characters (precompiled_charsmap): a double-array trie, as darts-clone writes it,
// whose values are places in a list of texts that end with a zero.
class CharacterMap {
 public:
  CharacterMap() = default;
  explicit CharacterMap(const std::string& bytes, const std::string& place) {
    uint32_t size = 0;
    if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() < sizeof size || size % sizeof(uint32_t) != 0 || size == 0 ||
        size > bytes.size() - sizeof size)
      throw TokenizerError(place + ": is no table of characters, or not the whole of one");
    units_.resize(size / sizeof(uint32_t));
    std::memcpy(units_.data(), bytes.data() + sizeof size, size);
    texts_ = bytes.substr(sizeof size + size);
    constexpr size_t kMostBytes = 1024;  // so that what a text becomes is bounded
    for (size_t at = 0; at < texts_.size();) {
      const size_t end = std::min(texts_.find('\0', at), texts_.size());
      if (end - at > kMostBytes)
        throw TokenizerError(place + ": replaces a character by " + std::to_string(end - at) +
                             " bytes: must be at most " + std::to_string(kMostBytes));
      at = end + 1;
    }
  }

  // Each user-perceived character becomes what the table has for its beginning, as Hugging Face's tokenizers
  // take it; long ones, and others, are taken character by character.
  std::string normalized(std::string_view text) const {
    if (units_.empty()) return std::string(text);
    constexpr size_t kShort = 6;  // bytes
    std::string result;
    for (size_t at = 0; at < text.size();) {
      const std::string_view whole = text.substr(at, grapheme_bytes(text.substr(at)));
      at += whole.size();
      if (whole.size() < kShort) {
        if (const char* const found = find(whole)) {
          result += found;
          continue;
        }
      }
      for (size_t in = 0; in < whole.size();) {
        const std::string_view one =
            whole.substr(in, decode_utf8(whole.data() + in, whole.data() + whole.size()).bytes);
        in += one.size();
        const char* const found = find(one);
        found != nullptr ? result += found : result += one;
      }
    }
    return result;
  }

 private:
  static size_t grapheme_bytes(std::string_view text) {
    const char *p = text.data(), *const end = p + text.size();
    utf8proc_int32_t state = 0;
    CodePoint before = decode_utf8(p, end);
    for (p += before.bytes; p != end;) {
      const CodePoint next = decode_utf8(p, end);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.value),
                                           static_cast<utf8proc_int32_t>(next.value), &state))
        break;
      before = next;
      p += next.bytes;
    }
    return static_cast<size_t>(p - text.data());
  }

  // The text for the shortest beginning of the key that is in the trie; nullptr: there is none.
  const char* find(std::string_view key) const {
    const auto unit = [&](size_t at) { return at < units_.size() ? units_[at] : 0; };
    const auto offset = [](uint32_t of) { return size_t{of >> 10} << ((of & (1U << 9)) >> 6); };
    size_t at = offset(unit(0));
    for (const char c : key) {
      const auto byte = static_cast<uint8_t>(c);
      if (byte == 0) return nullptr;
      at ^= byte;
      const uint32_t here = unit(at);
      if ((here & ((1U << 31) | 0xff)) != byte) return nullptr;
      at ^= offset(here);
      if ((here >> 8 & 1) == 0) continue;
      const size_t text = unit(at) & ~(1U << 31);
      return text < texts_.size() ? texts_.c_str() + text : nullptr;
    }
    return nullptr;
  }

  std::vector<uint32_t> units_;
  std::string texts_;
};

// Bytes in base64; throws where they are none.
std::string decoded_base64(const std::string& text, const std::string& place) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) throw TokenizerError(place + ": is not in base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

// What becomes of a text before it is cut.
struct Step {
  enum Kind { kMap, kStrip, kJoinSpaces } kind;
  CharacterMap map = {};
  bool strips_left = false, strips_right = false;  // white space
  std::string content = {};                        // of two spaces and more
};

bool is_space(std::string_view text) {
  return character_class(decode_utf8(text.data(), text.data() + text.size()).value) == CharacterClass::kSpace;
}

// Where the character that ends before `end` begins.
size_t last_character(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (text[at] & 0xc0) == 0x80) --at;
  return at;
}

std::string stripped(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_space(text))
    text.remove_prefix(decode_utf8(text.data(), text.data() + text.size()).bytes);
  while (right && !text.empty() && is_space(text.substr(last_character(text, text.size()))))
    text = text.substr(0, last_character(text, text.size()));
  return std::string(text);
}

std::string with_joined_spaces(std::string_view text, const std::string& content) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_not_of(' ', at), text.size());
    if (end - at >= 2)
      result += content;
    else if (end > at)
      result += ' ';
    at = end;
    const size_t next = std::min(text.find(' ', at), text.size());
    result += text.substr(at, next - at);
    at = next;
  }
  return result;
}

class Unigram : public WordModel {
 public:
  explicit Unigram(const Section& file) {
    const Section model = file.part("model");
    model.require("byte_fallback", {false});
    const json &vocabulary = model.get("vocab"), &unknown = model.get("unk_id");
    const std::string place = model.place("vocab");
    if (!vocabulary.is_array()) throw TokenizerError(place + ": must be a list of tokens with their scores");
    for (size_t id = 0; id < vocabulary.size(); ++id) {
      const json& one = vocabulary[id];
      const std::string here = place + "[" + std::to_string(id) + "]";
      if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_number())
        throw TokenizerError(here + " = " + excerpt(one) + ": must be a token and its score");
      if (one[0].get_ref<const std::string&>().empty()) throw TokenizerError(here + ": is empty");
      add(one[0], id, here);
      scores_.push_back(one[1]);
      least_ = std::min(least_, scores_.back());
      most_bytes_ = std::max(most_bytes_, tokens_[id].size());
    }
    if (!unknown.is_number_unsigned() || unknown.get<uint64_t>() >= scores_.size())
      throw TokenizerError(model.place("unk_id") + " = " + excerpt(unknown) +
                           ": must be the number of the token for what is unknown");
    unknown_ = unknown.get<int32_t>();
    is_special_.resize(scores_.size());
    read_normalizer(file);
    read_pre_tokenizer(file);
  }

  void set_special(const std::vector<int32_t>& ids) override {
    for (const int32_t id : ids)
      if (static_cast<size_t>(id) < scores_.size()) is_special_[static_cast<size_t>(id)] = true;
  }

  std::string normalized(std::string_view text) const override {
    std::string result(text);
    for (const Step& step : steps_)
      result = step.kind == Step::kMap     ? step.map.normalized(result)
               : step.kind == Step::kStrip ? stripped(result, step.strips_left, step.strips_right)
                                           : with_joined_spaces(result, step.content);
    return result;
  }

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    if (!splits_at_spaces_) return encode_words(text, ids);
    for (size_t at = 0; at < text.size();) {
      size_t end = at;
      while (end < text.size() && !is_space(text.substr(end))) end += bytes_at(text, end);
      encode_words(text.substr(at, end - at), ids);
      at = end < text.size() ? end + bytes_at(text, end) : end;
    }
  }

  std::string text_of(int32_t id, bool is_special) const override {
    const std::string& token = tokens()[static_cast<size_t>(id)];
    return is_special ? token : with_spaces(token);
  }

  void hash(Fingerprint& hash) const override {
    hash.add("Unigram/2");
    for (const double score : scores_) hash.add(std::bit_cast<uint64_t>(score));
    hash.add(normalizer_);
    for (const uint64_t number : {static_cast<uint64_t>(unknown_), uint64_t{splits_at_spaces_}})
      hash.add(number);
  }

 private:
  static size_t bytes_at(std::string_view text, size_t at) {
    return decode_utf8(text.data() + at, text.data() + text.size()).bytes;
  }

  void read_normalizer(const Section& file) {
    const json& value = file.get("normalizer");
    normalizer_ = value.dump();
    if (value.is_null()) return;
    const Section all = file.part("normalizer");
    if (all.get("type") != "Sequence") return read_step(all);
    const json& parts = all.get("normalizers");
    for (size_t i = 0; parts.is_array() && i < parts.size(); ++i)
      read_step({parts[i], all.place("normalizers[" + std::to_string(i) + "]"), kLikeXlm});
  }
  void read_step(const Section& step) {
    step.require_given("type", {"Precompiled", "Strip", "Replace"});
    const auto is_set = [&](const char* key) { return step.get(key) == true; };
    if (step.get("type") == "Strip") {
      steps_.push_back(
          {.kind = Step::kStrip, .strips_left = is_set("strip_left"), .strips_right = is_set("strip_right")});
    } else if (step.get("type") == "Replace") {
      step.require_given("pattern", {{{"Regex", " {2,}"}}});
      step.require_given("content", {" ", kSpaceSign});
      steps_.push_back({.kind = Step::kJoinSpaces, .content = step.get("content")});
    } else if (const json& map = step.get("precompiled_charsmap"); !map.is_null()) {
      const std::string place = step.place("precompiled_charsmap");
      if (!map.is_string()) throw TokenizerError(place + " = " + excerpt(map) + ": must be a text");
      if (!map.get_ref<const std::string&>().empty())
        steps_.push_back({.kind = Step::kMap, .map = CharacterMap(decoded_base64(map, place), place)});
    }
  }

  // Metaspace, perhaps behind WhitespaceSplit.
  void read_pre_tokenizer(const Section& file) {
    const Section all = file.part("pre_tokenizer");
    if (all.get("type") != "Sequence") return require_metaspace(all);
    const json& parts = all.get("pretokenizers");
    if (!parts.is_array() || parts.size() != 2)
      throw TokenizerError(all.place("pretokenizers") + " = " + excerpt(parts) + ": must be a list of two");
    Section(parts[0], all.place("pretokenizers[0]"), kLikeXlm).require_given("type", {"WhitespaceSplit"});
    require_metaspace({parts[1], all.place("pretokenizers[1]"), kLikeXlm});
    splits_at_spaces_ = true;
  }
  static void require_metaspace(const Section& part) {
    part.require_given("type", {"Metaspace"});
    part.require("replacement", {kSpaceSign});
    part.require("prepend_scheme", {"always"});
    part.require("add_prefix_space", {true});
    part.require("split", {true});
  }

  // A text with a sign before its first word, and in place of spaces; each sign begins a word.
  void encode_words(std::string_view text, std::vector<int32_t>& ids) const {
    if (text.empty()) return;
    std::string signs;
    for (const char c : text) c == ' ' ? signs += kSpaceSign : signs += c;
    if (!signs.starts_with(kSpaceSign)) signs.insert(0, kSpaceSign);
    for (size_t at = 0; at < signs.size();) {
      const size_t next = std::min(signs.find(kSpaceSign, at + 1), signs.size());
      encode_word(std::string_view(signs).substr(at, next - at), ids);
      at = next;
    }
  }

  bool is_word(int32_t id) const {
    return static_cast<size_t>(id) < scores_.size() && !is_special_[static_cast<size_t>(id)];
  }

  // Viterbi's algorithm over the bytes of a word.
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const {
    constexpr double kPenalty = 10;  // of what is unknown, below the least score
    struct Node {
      double score = 0;
      size_t begin = kNone;
      int32_t id = 0;
    };
    std::vector<Node> best(word.size() + 1);
    const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
      const double sum = score + best[begin].score;
      if (best[end].begin == kNone || sum > best[end].score) best[end] = {sum, begin, id};
    };
    for (size_t at = 0; at < word.size();) {
      const size_t character = bytes_at(word, at);
      bool has_character = false;
      for (size_t bytes = character; bytes <= std::min(most_bytes_, word.size() - at);) {
        if (const auto found = numbers_.find(word.substr(at, bytes));
            found != numbers_.end() && is_word(found->second)) {
          offer(at, at + bytes, scores_[static_cast<size_t>(found->second)], found->second);
          has_character = has_character || bytes == character;
        }
        if (at + bytes == word.size()) break;
        bytes += bytes_at(word, at + bytes);
      }
      if (!has_character) offer(at, at + character, least_ - kPenalty, unknown_);
      at += character;
    }
    // Unknown characters that follow one another are one token.
    std::vector<int32_t> reversed;
    for (size_t end = word.size(); end > 0; end = best[end].begin)
      if (best[end].id != unknown_ || reversed.empty() || reversed.back() != unknown_)
        reversed.push_back(best[end].id);
    ids.insert(ids.end(), reversed.rbegin(), reversed.rend());
  }

  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  static constexpr const char* kLikeXlm = "only unigrams as XLM-RoBERTa has them are read here";
  std::vector<double> scores_;
  std::vector<bool> is_special_;
  double least_ = 0;
  size_t most_bytes_ = 0;
  int32_t unknown_ = -1;
  std::vector<Step> steps_;
  std::string normalizer_;  // as the file has it
  bool splits_at_spaces_ = false;
};

}  // namespace

std::unique_ptr<WordModel> unigram(const Section& file) { return std::make_unique<Unigram>(file); }

}  // namespace pipeline::tokenizer
