#include "tokenizer/word_tokenizer.hpp"

#include <deque>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "tokenizer/word_model.hpp"

namespace pipeline::tokenizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using strict_json::excerpt;

constexpr const char *kVocabulary = "vocab.txt",
                     *kOnlyTheirs =
                         "only the WordPiece of BERT and the unigrams of XLM-RoBERTa are read here";

struct SpecialName {
  const char *key, *berts, *robertas;  // in tokenizer_config.json; what they are called otherwise
};
constexpr SpecialName kSpecial[] = {{"cls_token", "[CLS]", "<s>"},
                                    {"sep_token", "[SEP]", "</s>"},
                                    {"unk_token", "[UNK]", "<unk>"},
                                    {"pad_token", "[PAD]", "<pad>"},
                                    {"mask_token", "[MASK]", "<mask>"}};

// The kind of a tokenizer.json's model, where it is one of these; else empty.
std::string kind_of(const NamedText& file) {
  // Others need no second reading.
  if (file.text.find("WordPiece") == file.text.npos && file.text.find("Unigram") == file.text.npos) return "";
  const json object = parse_tokenizer_file(file);
  const json type = object.is_object() ? object.value(json::json_pointer("/model/type"), json()) : json();
  return type == "WordPiece" || type == "Unigram" ? type.get<std::string>() : "";
}

}  // namespace

void WordModel::add(const std::string& token, uint64_t id, const std::string& place) {
  constexpr uint64_t kMostTokens = 1 << 24;
  if (id >= kMostTokens)
    throw TokenizerError(place + ": " + excerpt(token) + " has id " + std::to_string(id) +
                         ": must be below " + std::to_string(kMostTokens));
  if (tokens_.size() <= id) tokens_.resize(id + 1);
  if (!numbers_.emplace(token, static_cast<int32_t>(id)).second || !tokens_[id].empty())
    throw TokenizerError(place + ": " + excerpt(token) + " has id " + std::to_string(id) +
                         ": each token must have an id of its own");
  tokens_[id] = token;
}

void WordModel::require_all(const std::string& place) const {
  for (size_t id = 0; id < tokens_.size(); ++id)
    if (tokens_[id].empty())
      throw TokenizerError(place + ": no token has id " + std::to_string(id) + " of " +
                           std::to_string(tokens_.size()));
}

std::optional<int32_t> WordModel::number_of(std::string_view token) const {
  const auto found = numbers_.find(token);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

int32_t WordModel::required(const std::string& token, const std::string& place) const {
  if (const auto id = number_of(token)) return *id;
  throw TokenizerError(place + " = " + excerpt(token) + ": is not a token of the vocabulary");
}

struct WordTokenizer::State {
  explicit State(const NamedFiles& files) {
    const auto config_file = files.find(kTokenizerConfig);
    const bool has_config = config_file != files.end(), has_json = files.contains(kTokenizerJson);
    const json values = has_config ? parse_tokenizer_file(config_file->second) : json::object();
    const Section config(values, (has_config ? config_file->second.path : kTokenizerConfig) + ":",
                         kOnlyTheirs);
    TextEnds ends;
    if (has_json) {
      const NamedText& file = files.at(kTokenizerJson);
      const json object = parse_tokenizer_file(file);
      const Section all(object, file.path + ":", kOnlyTheirs);
      model = all.part("model").get("type") == "Unigram" ? unigram(all) : word_piece(all, config);
      read_added(all);
      ends = read_post_processor(all);
    } else {
      model = word_piece(files.at(kVocabulary), config);
    }
    const auto named = [&](const SpecialName& name) {
      const std::string token = read_named_token(config, name.key);
      if (!token.empty()) return token;
      return std::string(model->number_of(name.berts) ? name.berts : name.robertas);
    };
    for (const SpecialName& name : kSpecial)
      if (const auto id = model->number_of(named(name))) special.emplace(*id, Matching());
    const auto end_of = [&](const std::string& in_json, const SpecialName& name) {
      return model->number_of(in_json.empty() ? named(name) : in_json).value_or(-1);
    };
    bos = end_of(ends.begin, kSpecial[0]);
    eot = end_of(ends.end, kSpecial[1]);
    adds_bos = bos >= 0 && (!has_json || !ends.begin.empty());
    std::vector<AddedTokens::Token> list;
    std::vector<int32_t> ids;
    for (const auto& [id, how] : special) {
      ids.push_back(id);
      const std::string& name = model->tokens()[static_cast<size_t>(id)];
      texts.push_back(how.is_normalized ? model->normalized(name) : name);
      if (!texts.back().empty()) list.push_back({texts.back(), id, how});
    }
    added = AddedTokens(std::move(list));
    model->set_special(ids);
    Fingerprint hash;
    model->hash(hash);
    for (const std::string& token : model->tokens()) {
      hash.add(token.size());
      hash.add(token);
    }
    for (const AddedTokens::Token& token : added.all()) {
      hash.add(static_cast<uint64_t>(token.id));
      hash_matching(token.id, token.how, hash);
    }
    for (const int32_t number : {eot, bos, adds_bos ? 1 : 0}) hash.add(static_cast<uint64_t>(number));
    fingerprint = hash.value();
  }

  void read_added(const Section& file) {
    const json& list = file.get("added_tokens");
    for (size_t i = 0; list.is_array() && i < list.size(); ++i) {
      const Section token(list[i], file.place("added_tokens[" + std::to_string(i) + "]"), kOnlyTheirs);
      const Matching how = read_matching(token);
      const json &content = token.get("content"), &id = token.get("id");
      if (!content.is_string() || content.get_ref<const std::string&>().empty() || !id.is_number_unsigned())
        throw TokenizerError(token.place("content") + " = " + excerpt(content) +
                             ": must be a token, with its id");
      const auto known = model->number_of(content.get_ref<const std::string&>());
      if (!known) model->add(content, id.get<uint64_t>(), token.place("content"));
      if (known && *known != id)
        throw TokenizerError(token.place("id") + " = " + id.dump() + ": " + excerpt(content) + " has id " +
                             std::to_string(*known) + " in model.vocab");
      special[*model->number_of(content.get_ref<const std::string&>())] = how;
    }
    model->require_all(file.place("added_tokens"));
  }

  std::unique_ptr<WordModel> model;
  std::map<int32_t, Matching> special;  // and words that were added
  std::deque<std::string> texts;        // that are looked for
  AddedTokens added;
  int32_t eot = -1, bos = -1;
  bool adds_bos = false;
  uint64_t fingerprint = 0;
};

fs::path WordTokenizer::find(const fs::path& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  const fs::path form = is_folder ? path / kTokenizerJson : path;
  if (form.extension() == ".json" && is_there(form))
    return kind_of(read_file(form)).empty() ? fs::path() : form;
  const fs::path lines = is_folder ? path / kVocabulary : path;
  const bool has_lines = lines.extension() == ".txt" && is_there(lines);
  return has_lines && !(is_folder && has_byte_level_files(path)) ? lines : fs::path();
}

bool WordTokenizer::is_kind_of(const NamedFiles& files) {
  const auto form = files.find(kTokenizerJson);
  return form == files.end() ? files.contains(kVocabulary) : !kind_of(form->second).empty();
}

WordTokenizer WordTokenizer::load(const fs::path& file) {
  const fs::path folder = file.parent_path();
  const bool is_json = file.extension() == ".json";
  NamedFiles files = named(files_beside_tokenizer(folder), (folder / "").string());
  files[is_json ? kTokenizerJson : kVocabulary] = read_file(file);
  if (is_json && is_there(folder / kVocabulary))
    files[kVocabulary] = read_file(folder / kVocabulary);  // is written again
  return WordTokenizer(files);
}

WordTokenizer::WordTokenizer(const NamedFiles& files)
    : Tokenizer(texts_of(files)), state_(std::make_shared<const State>(files)) {
  facts_ = {.vocab_size = static_cast<int32_t>(state_->model->tokens().size()),
            .eot = state_->eot,
            .bos = state_->bos,
            .adds_bos = state_->adds_bos,
            .fingerprint = state_->fingerprint,
            .no_eot =
                "the tokenizer has no end of text: tokenizer_config.json names no sep_token, and there "
                "is no [SEP]"};
}

void WordTokenizer::encode_append(std::string_view text, std::vector<int32_t>& ids, SpecialTokens special,
                                  TextPlace /*place*/) const {
  state_->added.cut(
      text, special, [&](std::string_view part) { state_->model->encode(part, ids); },
      [&](int32_t id) { ids.push_back(id); },
      [&](std::string_view part, std::string& kept) -> std::string_view {
        return kept = state_->model->normalized(part);
      });
}

std::string WordTokenizer::decode_bytes(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    check_id(id);
    text += state_->model->text_of(id, state_->special.contains(id));
  }
  return text;
}

std::string WordTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text = replace_invalid_utf8(decode_bytes(ids));
  if (text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::optional<int32_t> WordTokenizer::special_token(std::string_view text) const {
  const auto id = state_->model->number_of(text);
  return id && state_->special.contains(*id) ? id : std::nullopt;
}

bool WordTokenizer::is_special(int64_t id) const {
  return id >= 0 && id < vocab_size() && state_->special.contains(static_cast<int32_t>(id));
}

Tokenizer::Special WordTokenizer::first_special(std::string_view text) const {
  return state_->added.first_special(text);
}

TokenizerPtr WordTokenizer::with(const Files& more) const { return Tokenizer::with(*this, more); }

void WordTokenizer::save(const std::string& folder) const { write_tokenizer_files(files(), folder); }

std::string WordTokenizer::state() const { return pack(files()); }

}  // namespace pipeline::tokenizer
