#include "plugins/tasks/contrastive/text_rules.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "tokenizer/pre_tokenizer.hpp"

namespace pipeline::tasks::contrastive {
namespace {

using nlohmann::json;

json parsed(const tokenizer::Files& files, const char* name) {
  const auto found = files.find(name);
  const json object = found == files.end() ? json() : json::parse(found->second, nullptr, false);
  return object.is_object() ? object : json::object();
}

// "<pad>", or an object with that as its content; `otherwise`: none is named.
std::string token_named(const char* key, const tokenizer::Files& files, const char* otherwise) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    json token = parsed(files, file).value(key, json());
    if (token.is_object()) token = token.value("content", json());
    if (token.is_string()) return token;
  }
  return otherwise;
}

// SiglipTokenizer.canonicalize_text(): string.punctuation, and what \s is to Python.
std::string without_punctuation(std::string_view text) {
  constexpr std::string_view kPunctuation = R"(!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~)";
  std::string result;
  bool is_between_words = false;
  for (const char *at = text.data(), *const end = at + text.size(); at != end;) {
    const CodePoint character = decode_utf8(at, end);
    const std::string_view bytes(at, character.bytes);
    at += character.bytes;
    if (kPunctuation.find(bytes) != kPunctuation.npos) continue;
    const bool is_separator = character.value >= 0x1c && character.value <= 0x1f;
    if (is_separator || tokenizer::character_class(character.value) == tokenizer::CharacterClass::kSpace) {
      is_between_words = true;
      continue;
    }
    if (is_between_words && !result.empty()) result += ' ';
    is_between_words = false;
    result += bytes;
  }
  return result;
}

}  // namespace

TextRules text_rules(const tokenizer::Tokenizer& tokenizer) {
  const json config = parsed(tokenizer.files(), "tokenizer_config.json");
  const auto is = [&](const char* key, const json& value) { return config.value(key, json()) == value; };
  const bool is_siglip = is("tokenizer_class", "SiglipTokenizer"),
             is_siglip2 = is("tokenizer_class", "Siglip2Tokenizer");
  TextRules rules{
      .is_lowered =
          is_siglip2 || is("do_lower_case", true) || (is_siglip && !config.contains("do_lower_case")),
      .is_canonical = is_siglip,
      .is_padded_left = is("padding_side", "left") || (is_siglip2 && !config.contains("padding_side")),
      .padding = tokenizer.eot(),
      .unknown = token_named("unk_token", tokenizer.files(), "<unk>"),
      .problem = {}};
  if (const std::string token = token_named("pad_token", tokenizer.files(), is_siglip2 ? "<pad>" : "");
      !token.empty()) {
    if (const auto id = tokenizer.special_token(token))
      rules.padding = *id;
    else
      rules.problem = "names pad_token = \"" + token + "\", which is not among its special tokens";
  }
  return rules;
}

std::vector<int32_t> encode(const tokenizer::Tokenizer& tokenizer, const TextRules& rules,
                            std::string_view text) {
  const std::string lowered = rules.is_lowered ? tokenizer::lowered(text) : std::string(text);
  if (!rules.is_canonical) return tokenizer.encode(lowered);
  // Like the class, which keeps the space before the first word by a word before it, and takes that away.
  constexpr std::string_view kSpace = "\u2581";
  std::string spaced(kSpace);
  for (size_t at = 0; at < lowered.size();) {
    const size_t next = std::min(lowered.find(kSpace, at), lowered.size());
    spaced.append(lowered, at, next - at);
    if (next < lowered.size()) spaced += ' ';
    at = next + kSpace.size();
  }
  std::vector<int32_t> ids = tokenizer.encode(rules.unknown + without_punctuation(spaced));
  const size_t before = tokenizer.encode(rules.unknown).size();
  if (ids.size() >= before) ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(before));
  return ids;
}

}  // namespace pipeline::tasks::contrastive
