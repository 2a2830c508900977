// vocab.json and merges.txt.

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/vocabulary.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

using nlohmann::json;

constexpr std::string_view kVersion = "#version: 0.2";

void add_merges(const NamedText& file, VocabularyBuilder& builder) {
  std::string_view rest = file.text;
  for (size_t line_number = 1; !rest.empty(); ++line_number) {
    const size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line_number == 1 && line.starts_with("#version")) continue;
    add_merge_text(
        line, [&] { return file.path + ":" + std::to_string(line_number); }, builder);
  }
}

}  // namespace

json parse_tokenizer_file(const NamedText& file) {
  try {
    return strict_json::parse(file.text, file.path);
  } catch (const strict_json::Error& error) {
    throw Error(error.what());
  }
}

void add_vocab(const json& vocab, const std::string& place, VocabularyBuilder& builder) {
  if (!vocab.is_object()) throw Error(place + ": must be an object of ids by token");
  for (const auto& [token, id] : vocab.items()) {
    if (!id.is_number_unsigned()) {
      throw Error(place + ": id of " + strict_json::excerpt(token) + " = " + strict_json::excerpt(id) +
                  ": must be a non-negative integer");
    }
    builder.add_token(token, id_of(id), place);
  }
  builder.check_tokens(place);
}

int64_t id_of(const json& number) {
  const auto id = number.get<uint64_t>();
  return id > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(id);
}

void add_merge_text(std::string_view text, const std::function<std::string()>& place,
                    VocabularyBuilder& builder) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == text.size() ||
      text.find(' ', space + 1) != std::string_view::npos) {
    throw Error(place() + ": " + strict_json::excerpt(std::string(text)) +
                ": must be two tokens with one space between");
  }
  builder.add_merge(text.substr(0, space), text.substr(space + 1), place);
}

Vocabulary parse_vocab_and_merges(const NamedText& vocab, const NamedText& merges) {
  const json object = parse_tokenizer_file(vocab);
  const auto has = [&](const std::string& token) { return object.is_object() && object.contains(token); };
  const bool is_clip = has(kClipBegin) && has(std::string("!") + kWordEnd);
  VocabularyBuilder builder(is_clip ? PreTokenizer::kClip : PreTokenizer::kGpt2);
  if (is_clip && object[kClipBegin].is_number_unsigned())
    builder.add_added(kClipBegin, id_of(object[kClipBegin]), {}, vocab.path);
  if (object.is_object() && object.contains(kEndOfText) && object[kEndOfText].is_number_unsigned()) {
    builder.add_added(kEndOfText, id_of(object[kEndOfText]), {}, vocab.path);
  }
  add_vocab(object, vocab.path, builder);
  add_merges(merges, builder);
  Vocabulary vocabulary = builder.finish();
  if (is_clip) {
    vocabulary.is_composed = true;
    vocabulary.begin_of_text = special_token(vocabulary, kClipBegin);
    vocabulary.end_of_text = special_token(vocabulary, kEndOfText);
    vocabulary.adds_begin_of_text = true;
    if (vocabulary.begin_of_text < 0 || vocabulary.end_of_text < 0)
      throw Error(vocab.path + ": " + kClipBegin + " and " + kEndOfText + " must both be tokens of CLIP's");
  }
  return vocabulary;
}

std::vector<std::string> token_texts(const Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  for (const std::string& token : vocabulary.tokens) {
    const bool ends_word = vocabulary.ends_words() && token.size() > 1 && token.ends_with(' ');
    texts.push_back(ends_word ? to_alphabet(std::string_view(token).substr(0, token.size() - 1)) + kWordEnd
                              : to_alphabet(token));
  }
  for (const Added& token : vocabulary.added) texts[static_cast<size_t>(token.id)] = token.text;
  return texts;
}

std::string format_vocab_json(const Vocabulary& vocabulary) {
  std::string text = "{";
  int32_t id = 0;
  for (const std::string& token : token_texts(vocabulary)) {
    text += (id == 0 ? "" : ", ") + json(token).dump() + ": " + std::to_string(id);
    ++id;
  }
  return text + "}";
}

std::string format_merges(const Vocabulary& vocabulary) {
  const std::vector<std::string> texts = token_texts(vocabulary);
  std::string text = std::string(kVersion) + "\n";
  for (const Merge& merge : vocabulary.merges) {
    text += texts[static_cast<size_t>(merge.left)] + " " + texts[static_cast<size_t>(merge.right)] + "\n";
  }
  return text;
}

}  // namespace pipeline::tokenizer
