#include "tokenizer/sentence_piece.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/sentence_piece_model.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json_parts.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::tokenizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using strict_json::excerpt;

constexpr const char *kModel = "tokenizer.model", *kSiglipModel = "spiece.model",
                     *kAddedTokens = "added_tokens.json";

constexpr const char* kLimit = "the tokenizers of Llama 1 and 2 have no other";

struct AddedToken {
  std::string text, place;
  Matching how = {};
};

// The tokens of added_tokens.json, {"<image>": 32000}, and added_tokens_decoder of tokenizer_config.json,
// {"32000": {"content": "<image>"}}.
std::map<int64_t, AddedToken> read_added(const json& added, const std::string& added_place,
                                         const Section& config) {
  std::map<int64_t, AddedToken> tokens;
  for (const auto& [text, id] : added.items()) {
    if (!id.is_number_unsigned())
      throw TokenizerError(added_place + " " + excerpt(text) + " = " + excerpt(id) +
                           ": must be a non-negative integer");
    tokens[id_of(id)] = {text, added_place + " " + excerpt(text)};
  }
  const json& decoder = config.get("added_tokens_decoder");
  if (decoder.is_null()) return tokens;
  if (!decoder.is_object())
    throw TokenizerError(config.place("added_tokens_decoder") + " = " + excerpt(decoder) +
                         ": must be an object");
  for (const auto& [id, value] : decoder.items()) {
    const Section token(value, config.place("added_tokens_decoder." + id), kLimit);
    Matching how = read_matching(token);
    how.is_normalized = false;  // the library's normalizer is for its pieces alone
    const json& content = token.get("content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty())
      throw TokenizerError(token.place("content") + " = " + excerpt(content) + ": must be a token");
    if (id.empty() || id.size() > 9 || id.find_first_not_of("0123456789") != id.npos)
      throw TokenizerError(config.place("added_tokens_decoder") + ": key " + excerpt(id) +
                           ": must be a token's id");
    tokens[std::stoll(id)] = {content, token.place("content"), how};
  }
  return tokens;
}

// The parts of tokenizer.json that make ids of text, however the file is laid out.
std::string canonical(const json& file) {
  return json{file.at("model"), file.value("normalizer", json()), file.value("pre_tokenizer", json())}.dump();
}

// Whether a text after a special token goes on, as tokenizer.json says, or else `legacy: false` of
// tokenizer_config.json.
bool goes_on_after_special(const NamedFiles& files) {
  const auto read = [&](const char* name) {
    const auto found = files.find(name);
    const json object = found == files.end() ? json() : parse_tokenizer_file(found->second);
    return object.is_object() ? object : json::object();
  };
  if (!files.contains(kTokenizerJson)) return read(kTokenizerConfig).value("legacy", json()) == false;
  const json spaces = read(kTokenizerJson).value("pre_tokenizer", json());
  return spaces.is_object() && spaces.value("prepend_scheme", json()) == "first";
}

// Whether tokenizer.json makes the letters of a text small, as SigLIP 2's does.
bool lowers_texts(const NamedFiles& files) {
  const auto form = files.find(kTokenizerJson);
  const json object = form == files.end() ? json() : parse_tokenizer_file(form->second);
  return object.is_object() &&
         object.value("normalizer", json()).dump().find(R"("Lowercase")") != std::string::npos;
}

// SigLIP 1's model. Other classes of transformers with a file of that name make other texts of a text first.
bool has_siglip_model(const fs::path& folder) {
  if (!is_there(folder / kSiglipModel) || !is_there(folder / kTokenizerConfig)) return false;
  const json config = parse_tokenizer_file(read_file(folder / kTokenizerConfig));
  return config.is_object() && config.value("tokenizer_class", json()) == "SiglipTokenizer";
}

struct ReadPieces {
  std::unique_ptr<const Pieces> pieces;
  std::string content;  // of the file, for a fingerprint
};

ReadPieces read_pieces(const NamedText& file, bool is_json) {
  if (!is_json) return {std::make_unique<const SentencePieceModel>(file), file.text};
  const json form = parse_tokenizer_file(file);
  return {character_bpe(form, file.path), canonical(form)};
}

}  // namespace

struct SentencePiece::State {
  explicit State(const NamedFiles& files)
      : State(files, files.contains(kModel)         ? kModel
                     : files.contains(kSiglipModel) ? kSiglipModel
                                                    : kTokenizerJson) {}

  State(const NamedFiles& files, const char* of)
      : State(files, of, read_pieces(files.at(of), of == kTokenizerJson)) {}

  State(const NamedFiles& files, const char* of, ReadPieces read_from)
      : file(of),
        pieces(std::move(read_from.pieces)),
        tokens(pieces->bytes),
        is_special(pieces->is_special),
        matching(pieces->matching),
        after_special(pieces->after_special) {
    const auto read = [&](const char* name) {
      const auto found = files.find(name);
      return found == files.end() ? json::object() : parse_tokenizer_file(found->second);
    };
    const auto place = [&](const char* name) {
      const auto found = files.find(name);
      return (found == files.end() ? name : found->second.path) + ":";
    };
    const json values = read(kTokenizerConfig), in_file = read(kAddedTokens);
    const Section config(values, place(kTokenizerConfig), kLimit);
    if (file != kTokenizerJson && goes_on_after_special(files)) after_special = TextPlace::kWithin;
    lowers = file != kTokenizerJson && lowers_texts(files);
    static_cast<void>(Section(in_file, place(kAddedTokens)));  // an object
    add(read_added(in_file, place(kAddedTokens), config));
    const NamedText* const map = special_tokens_map(files);
    const json in_map = map == nullptr ? json::object() : parse_tokenizer_file(*map);
    const Section map_config(in_map, map == nullptr ? "" : map->path + ":", kLimit);
    for (const Section* one : {&config, &map_config})
      for (const char* key : {"eos_token", "bos_token"}) make_special(read_named_token(*one, key));
    std::vector<AddedTokens::Token> list;
    for (size_t id = 0; id < tokens.size(); ++id)
      if (is_special[id])
        list.push_back({tokens[id], static_cast<int32_t>(id), matching[static_cast<int32_t>(id)]});
    added = AddedTokens(std::move(list));
    eot = boundary(map_config, "eos_token", boundary(config, "eos_token", pieces->end), /*may_lack=*/true);
    bos = boundary(map_config, "bos_token", boundary(config, "bos_token", pieces->begin), /*may_lack=*/true);
    config.require("add_bos_token", {true, false});
    const json& adds = config.get("add_bos_token");
    adds_bos = bos >= 0 && (adds.is_null() ? pieces->adds_begin : adds == true);
    if (file == kTokenizerJson ? pieces->adds_end : config.get("add_eos_token") == true)
      added_end = file == kTokenizerJson ? pieces->end : eot;
    Fingerprint hash;
    hash.add(read_from.content);
    for (const AddedTokens::Token& token : added.all()) {
      hash.add(static_cast<uint64_t>(token.id));
      hash.add(token.text);
    }
    for (const int32_t id : {eot, bos, adds_bos ? 1 : 0}) hash.add(static_cast<uint64_t>(id));
    if (file != kTokenizerJson && after_special == TextPlace::kWithin) hash.add("goes on");
    if (lowers) hash.add("small letters");
    for (const AddedTokens::Token& token : added.all()) hash_matching(token.id, token.how, hash);
    fingerprint = hash.value();
  }

  void add(const std::map<int64_t, AddedToken>& list) {
    for (const auto& [id, token] : list) {
      const auto at = static_cast<size_t>(id);
      if (at > tokens.size())
        throw TokenizerError(token.place + ": " + excerpt(token.text) + " has id " + std::to_string(id) +
                             ": the token before it is missing: " + std::to_string(tokens.size()) +
                             " are there");
      if (at == tokens.size()) {
        tokens.push_back(token.text);
        is_special.push_back(true);
      } else if (tokens[at] != token.text && tokens[at] != with_spaces(token.text)) {
        throw TokenizerError(token.place + ": " + excerpt(token.text) + " has id " + std::to_string(id) +
                             ", which is " + excerpt(tokens[at]) + " in " + file +
                             ": the files do not belong together");
      }
      tokens[at] = token.text;
      is_special[at] = true;
      matching[static_cast<int32_t>(id)] = token.how;
    }
  }

  // A piece like others becomes a special token, as transformers makes one of what its files name.
  void make_special(const std::string& text) {
    if (text.empty()) return;
    const auto found = std::ranges::find_if(tokens, [&, spaced = with_spaces(text)](const std::string& one) {
      return one == text || one == spaced;
    });
    if (found == tokens.end()) return;
    const auto id = static_cast<size_t>(found - tokens.begin());
    if (!is_special[id]) *found = text;
    is_special[id] = true;
  }

  // The id of the token that `key` names; where the file names none, `otherwise`; -1: none.
  int32_t boundary(const Section& config, const char* key, int32_t otherwise, bool may_lack = false) const {
    const std::string text = read_named_token(config, key);
    if (text.empty()) return otherwise;
    if (const auto id = find(text)) return *id;
    if (may_lack) return otherwise;
    throw TokenizerError(config.place(key) + " = " + excerpt(text) +
                         ": is not a token of the tokenizer: add it there, or name another");
  }

  std::optional<int32_t> find(std::string_view text) const {
    for (const AddedTokens::Token& token : added.all())
      if (token.text == text) return token.id;
    return std::nullopt;
  }

  const char* file;  // the one with the pieces
  std::unique_ptr<const Pieces> pieces;
  std::vector<std::string> tokens;  // bytes by id; of added ones what is found in a text
  std::vector<bool> is_special;
  std::map<int32_t, Matching> matching;
  TextPlace after_special;
  AddedTokens added;
  int32_t eot = -1, bos = -1, added_end = -1;
  bool adds_bos = false, lowers = false;
  uint64_t fingerprint = 0;
};

bool SentencePiece::has_model(const fs::path& folder) {
  return is_there(folder / kModel) || has_siglip_model(folder);
}

fs::path SentencePiece::find_model(const fs::path& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  if (!is_folder && path.extension() == ".model") return path;
  fs::path model = path / kModel, json_form = is_folder ? path / kTokenizerJson : path;
  if (is_folder && has_siglip_model(path)) return path / kSiglipModel;
  // A model begins with the tag of a piece; Llama 3's file of that name is lines of text.
  constexpr char kPiece = '\x0a';
  if (is_folder && is_there(model) && (!is_there(json_form) || read_file(model).text.starts_with(kPiece)))
    return model;
  const bool has_json = json_form.extension() == ".json" && is_there(json_form);
  return has_json && is_character_bpe(read_file(json_form)) ? json_form : fs::path();
}

SentencePiece SentencePiece::load(const fs::path& model) {
  const fs::path folder = model.parent_path();
  NamedFiles files = named(files_beside_tokenizer(folder), (folder / "").string());
  files[model.extension() == ".json"       ? kTokenizerJson
        : model.filename() == kSiglipModel ? kSiglipModel
                                           : kModel] = read_file(model);
  // What else tokenizer.json says is in the model, too.
  if (files.contains(kModel) && is_there(folder / kTokenizerJson)) {
    const bool goes_on = goes_on_after_special(files);
    files[kTokenizerJson] = read_file(folder / kTokenizerJson);
    if (goes_on_after_special(files) == goes_on && !lowers_texts(files)) files.erase(kTokenizerJson);
  }
  return SentencePiece(files);
}

SentencePiece::SentencePiece(const NamedFiles& files)
    : Tokenizer(texts_of(files)), state_(std::make_shared<const State>(files)) {
  facts_ = {.vocab_size = static_cast<int32_t>(state_->tokens.size()),
            .eot = state_->eot,
            .bos = state_->bos,
            .added_end = state_->added_end,
            .adds_bos = state_->adds_bos,
            .after_special = state_->after_special,
            .fingerprint = state_->fingerprint,
            .no_eot = "the tokenizer has no end of text: neither " + std::string(state_->file) +
                      " nor tokenizer_config.json (eos_token) names one"};
}

void SentencePiece::encode_append(std::string_view text, std::vector<int32_t>& ids, SpecialTokens special,
                                  TextPlace place) const {
  state_->added.cut(
      text, special,
      [&](std::string_view part) {
        state_->lowers ? encode_plain(lowered(part), place, ids) : encode_plain(part, place, ids);
      },
      [&](int32_t id) {
        ids.push_back(id);
        place = state_->after_special;
      });
}

void SentencePiece::encode_plain(std::string_view text, TextPlace place, std::vector<int32_t>& ids) const {
  while (!text.empty()) {
    const std::vector<int> found = state_->pieces->encode(text, place);
    // Some models have their special tokens among the pieces, and the library sees those in any text. Cut in
    // two, such a one is letters.
    const bool sees_special = std::any_of(found.begin(), found.end(), [&](int id) {
      return state_->is_special[static_cast<size_t>(id)] && id != state_->pieces->unknown;
    });
    const Special special = sees_special ? first_special(text) : Special();
    if (special.bytes < 2) {
      ids.insert(ids.end(), found.begin(), found.end());
      return;
    }
    const size_t cut = special.at + decode_utf8(text.data() + special.at, text.data() + text.size()).bytes;
    encode_plain(text.substr(0, cut), place, ids);
    text.remove_prefix(cut);
    place = TextPlace::kWithin;
  }
}

std::string SentencePiece::decode_bytes(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    check_id(id);
    const std::string& token = state_->tokens[static_cast<size_t>(id)];
    bytes += state_->is_special[static_cast<size_t>(id)] ? with_spaces(token) : token;  // Gemma adds "▁▁"
  }
  return bytes;
}

std::string SentencePiece::decode(std::span<const int32_t> ids) const {
  std::string text = replace_invalid_utf8(decode_bytes(ids));
  if (state_->pieces->adds_space && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::optional<int32_t> SentencePiece::special_token(std::string_view text) const {
  return state_->find(text);
}

bool SentencePiece::is_special(int64_t id) const {
  return id >= 0 && id < vocab_size() && state_->is_special[static_cast<size_t>(id)];
}

Tokenizer::Special SentencePiece::first_special(std::string_view text) const {
  return state_->added.first_special(text);
}

void SentencePiece::save(const std::string& folder) const {
  Files all = files();
  if (!all.contains(kTokenizerConfig)) {
    const bool is_json = state_->file == kTokenizerJson;
    json config{{"tokenizer_class", is_json ? "PreTrainedTokenizerFast" : "LlamaTokenizer"},
                {"add_bos_token", adds_bos()},
                {"add_eos_token", false},
                {"legacy", after_special() == TextPlace::kStart},
                {"clean_up_tokenization_spaces", false}};
    const auto name = [&](const char* key, int32_t id) {
      if (id >= 0) config[key] = state_->tokens[static_cast<size_t>(id)];
    };
    name("bos_token", state_->bos);
    name("eos_token", state_->eot);
    name("unk_token", state_->pieces->unknown);
    all[kTokenizerConfig] = config.dump(2) + "\n";
  }
  if (const auto* model = dynamic_cast<const SentencePieceModel*>(state_->pieces.get());
      model != nullptr && model->is_llamas && !all.contains(kTokenizerJson))
    all[kTokenizerJson] =
        format_tokenizer_json(*model, state_->added.all(), adds_bos() ? state_->bos : -1, after_special());
  write_tokenizer_files(all, folder);
}

TokenizerPtr SentencePiece::with(const Files& more) const { return Tokenizer::with(*this, more); }

std::string SentencePiece::state() const { return pack(files()); }

bool SentencePiece::is_kind_of(const NamedFiles& files) {
  const auto form = files.find(kTokenizerJson);
  return files.contains(kModel) || files.contains(kSiglipModel) ||
         (form != files.end() && is_character_bpe(form->second));
}

}  // namespace pipeline::tokenizer
