#include "plugins/tasks/contrastive/task/text_rules.hpp"

#include <nlohmann/json.hpp>

namespace pipeline::contrastive {
namespace {

using nlohmann::json;

json parsed(const text::Files& files, const char* name) {
  const auto found = files.find(name);
  const json object = found == files.end() ? json() : json::parse(found->second, nullptr, false);
  return object.is_object() ? object : json::object();
}

// "<pad>", or an object with that as its content; empty: none is named.
std::string pad_token(const text::Files& files, bool is_siglip2) {
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    json token = parsed(files, file).value("pad_token", json());
    if (token.is_object()) token = token.value("content", json());
    if (token.is_string()) return token;
  }
  return is_siglip2 ? "<pad>" : "";
}

}  // namespace

TextRules text_rules(const text::Tokenizer& tokenizer) {
  const json config = parsed(tokenizer.files(), "tokenizer_config.json");
  const auto is = [&](const char* key, const json& value) { return config.value(key, json()) == value; };
  const bool is_siglip2 = is("tokenizer_class", "Siglip2Tokenizer");
  TextRules rules{
      .is_lowered = is_siglip2 || is("do_lower_case", true),
      .is_padded_left = is("padding_side", "left") || (is_siglip2 && !config.contains("padding_side")),
      .padding = tokenizer.eot(),
      .problem = {}};
  if (is("tokenizer_class", "SiglipTokenizer"))
    rules.problem =
        "is a SiglipTokenizer, which takes punctuation out of texts: only SigLIPs with the tokenizers of "
        "CLIP, "
        "Llama or Gemma, as SigLIP 2, are computed here";
  if (const std::string token = pad_token(tokenizer.files(), is_siglip2); !token.empty()) {
    if (const auto id = tokenizer.special_token(token))
      rules.padding = *id;
    else
      rules.problem = "names pad_token = \"" + token + "\", which is not among its special tokens";
  }
  return rules;
}

}  // namespace pipeline::contrastive
