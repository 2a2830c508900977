#include "tokenizer/tokenizer_json_parts.hpp"

#include <algorithm>

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;
using strict_json::excerpt;

// `numbers`: how many stay together.
std::string expression(const char* numbers) {
  return std::string(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})") + numbers +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}
json pattern_of(PreTokenizer kind) {
  return {{"Regex", expression(kind == PreTokenizer::kQwen2 ? "" : "{1,3}")}};
}

// The special tokens that a template puts before and behind every text; empty: none, as transformers 5 saves
// a tokenizer that adds nothing.
TextEnds read_template(const Section& part) {
  const json& single = part.get("single");
  const json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const auto text = single.is_array() ? std::find(single.begin(), single.end(), sequence) : single.end();
  const auto token_at = [&](auto one) {
    const json token = one->is_object() ? one->value("SpecialToken", json()) : json();
    return token.is_object() ? token.value("id", "") : "";
  };
  TextEnds ends;
  bool is_known =
      single.is_array() && text != single.end() && text - single.begin() <= 1 && single.end() - text <= 2;
  if (is_known && text != single.begin()) is_known = !(ends.begin = token_at(single.begin())).empty();
  if (is_known && single.end() - text == 2) is_known = !(ends.end = token_at(text + 1)).empty();
  if (is_known) return ends;
  throw TokenizerError(
      part.place("single") + " = " + excerpt(single) +
      ": must be the text, with one special token before it, behind it, or both: no other template is "
      "read here");
}

// The same as "cls" and "sep".
TextEnds read_pair_of_ends(const Section& part) {
  const auto token = [&](const char* key) {
    const json& value = part.get(key);
    if (!value.is_array() || value.size() != 2 || !value[0].is_string())
      throw TokenizerError(part.place(key) + " = " + excerpt(value) + ": must be a token and its id");
    return value[0].get<std::string>();
  };
  return {token("cls"), token("sep")};
}

json clip_pre_tokenizer() {
  constexpr const char* kPieces =
      R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
  return {{"type", "Split"}, {"pattern", {{"Regex", kPieces}}}, {"behavior", "Removed"}, {"invert", true}};
}

// A list of as many parts.
Section part_of(const Section& whole, const char* key, size_t index, size_t count) {
  const json& parts = whole.get(key);
  if (!parts.is_array() || parts.size() != count)
    throw TokenizerError(whole.place(key) + " = " + excerpt(parts) + ": must be a list of " +
                         std::to_string(count));
  return {parts[index], whole.place(std::string(key) + "[" + std::to_string(index) + "]")};
}

}  // namespace

json clip_normalizer() {
  return {
      {"type", "Sequence"},
      {"normalizers", json::array({{{"type", "NFC"}},
                                   {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}},
                                   {{"type", "Lowercase"}}})}};
}

void require_clip_parts(const Section& file) {
  file.require_given("normalizer", {clip_normalizer()});
  const Section pieces = file.part("pre_tokenizer");
  pieces.require_given("type", {"Sequence"});
  const Section split = part_of(pieces, "pretokenizers", 0, 2),
                bytes = part_of(pieces, "pretokenizers", 1, 2);
  const json ours = clip_pre_tokenizer();
  for (const auto& [key, value] : ours.items()) split.require_given(key.c_str(), {value});
  bytes.require_given("type", {"ByteLevel"});
  bytes.require("add_prefix_space", {false});
}

TextEnds read_clip_post_processor(const Section& file) {
  const Section part = file.part("post_processor");
  part.require_given("type", {"RobertaProcessing"});
  return read_pair_of_ends(part);
}

std::string read_named_token(const Section& file, const char* key) {
  const json& value = file.get(key);
  if (value.is_null()) return {};
  const json& text = value.is_object() ? Section(value, file.place(key)).get("content") : value;
  if (!text.is_string()) throw TokenizerError(file.place(key) + " = " + excerpt(value) + ": must be a token");
  return text.get<std::string>();
}

Matching read_matching(const Section& token) {
  token.require("single_word", {false});  // what a word is, is said by more tables of Unicode than are here
  for (const char* flag : {"special", "normalized", "lstrip", "rstrip"}) token.require(flag, {false, true});
  const auto is = [&](const char* flag) { return token.get(flag) == true; };
  return {.is_special = token.get("special") != false,
          .is_normalized = is("normalized"),
          .takes_left = is("lstrip"),
          .takes_right = is("rstrip")};
}

json format_added(int32_t id, std::string_view text, const Matching& how) {
  return {{"id", id},
          {"content", text},
          {"single_word", false},
          {"lstrip", how.takes_left},
          {"rstrip", how.takes_right},
          {"normalized", how.is_normalized},
          {"special", how.is_special}};
}

PreTokenizer read_pre_tokenizer(const Section& file) {
  const Section all(file.get("pre_tokenizer"), file.place("pre_tokenizer"));
  const auto require_bytes = [](const Section& part, bool use_regex) {
    part.require_given("type", {"ByteLevel"});
    part.require("add_prefix_space", {false});
    use_regex ? part.require("use_regex", {true}) : part.require_given("use_regex", {false});
  };
  if (all.get("type") != "Sequence") {
    all.require_given("type", {"ByteLevel", "Sequence"});
    require_bytes(all, true);
    return PreTokenizer::kGpt2;
  }
  const json& parts = all.get("pretokenizers");
  if (!parts.is_array() || parts.size() != 2)
    throw TokenizerError(all.place("pretokenizers") + " = " + excerpt(parts) + ": must be a list of two");
  const Section first(parts[0], all.place("pretokenizers[0]"));
  const Section second(parts[1], all.place("pretokenizers[1]"));
  first.require_given("type", {"Digits", "Split"});
  if (first.get("type") == "Digits") {
    first.require_given("individual_digits", {true});
    require_bytes(second, true);
    return PreTokenizer::kSmolLm;
  }
  const json qwen2 = pattern_of(PreTokenizer::kQwen2);
  first.require_given("pattern", {pattern_of(PreTokenizer::kLlama3), qwen2});
  first.require_given("behavior", {"Isolated"});
  first.require("invert", {false});
  require_bytes(second, false);
  return first.get("pattern") == qwen2 ? PreTokenizer::kQwen2 : PreTokenizer::kLlama3;
}

json format_pre_tokenizer(PreTokenizer kind) {
  const auto byte_level = [](bool use_regex) {
    return json{
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
  };
  const auto sequence = [](const json& first, const json& second) {
    return json{{"type", "Sequence"}, {"pretokenizers", json::array({first, second})}};
  };
  switch (kind) {
    case PreTokenizer::kSmolLm:
      return sequence({{"type", "Digits"}, {"individual_digits", true}}, byte_level(true));
    case PreTokenizer::kLlama3:
    case PreTokenizer::kQwen2:
      return sequence(
          {{"type", "Split"}, {"pattern", pattern_of(kind)}, {"behavior", "Isolated"}, {"invert", false}},
          byte_level(false));
    case PreTokenizer::kClip:
      return sequence(clip_pre_tokenizer(), byte_level(true));
    case PreTokenizer::kGpt2:
      break;
  }
  return byte_level(true);
}

TextEnds read_post_processor(const Section& file) {
  if (file.get("post_processor").is_null()) return {};
  const Section all = file.part("post_processor");
  const auto read = [](const Section& part) {
    part.require_given("type", {"ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing"});
    if (part.get("type") == "ByteLevel") return TextEnds();
    return part.get("type") == "TemplateProcessing" ? read_template(part) : read_pair_of_ends(part);
  };
  if (all.get("type") != "Sequence") return read(all);
  const json& parts = all.get("processors");
  if (!parts.is_array())
    throw TokenizerError(all.place("processors") + " = " + excerpt(parts) + ": must be a list");
  TextEnds ends;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Section part(parts[i], all.place("processors[" + std::to_string(i) + "]"));
    const TextEnds found = read(part);
    if (found.is_none()) continue;
    if (!ends.is_none()) throw TokenizerError(part.place("type") + ": is the second template");
    ends = found;
  }
  return ends;
}

json format_post_processor(const Vocabulary& vocabulary) {
  if (vocabulary.ends_words()) {
    const auto token = [&](int32_t id) {
      return json::array({vocabulary.tokens[static_cast<size_t>(id)], id});
    };
    return {{"type", "RobertaProcessing"},
            {"sep", token(end_of_text(vocabulary))},
            {"cls", token(vocabulary.begin_of_text)},
            {"trim_offsets", false},
            {"add_prefix_space", false}};
  }
  json offsets = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}};
  if (!vocabulary.adds_begin_of_text) return offsets;
  const int32_t id = vocabulary.begin_of_text;
  const json begin = begin_with(vocabulary.tokens[static_cast<size_t>(id)], id);
  return {{"type", "Sequence"}, {"processors", json::array({offsets, begin})}};
}

json begin_with(const std::string& token, int32_t id) {
  const auto part = [](const char* kind, const std::string& name, int type) {
    return json{{kind, {{"id", name}, {"type_id", type}}}};
  };
  const json start = part("SpecialToken", token, 0), first = part("Sequence", "A", 0);
  return {{"type", "TemplateProcessing"},
          {"single", {start, first}},
          {"pair", {start, first, part("SpecialToken", token, 1), part("Sequence", "B", 1)}},
          {"special_tokens",
           {{token, {{"id", token}, {"ids", json::array({id})}, {"tokens", json::array({token})}}}}}};
}

}  // namespace pipeline::tokenizer
