#include "tokenizer/sentence_piece.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "tokenizer/fingerprint.hpp"
#include "tokenizer/sentence_piece_json.hpp"
#include "tokenizer/sentence_piece_model.hpp"
#include "tokenizer/special_tokens.hpp"
#include "tokenizer/text_file.hpp"
#include "tokenizer/tokenizer_json_parts.hpp"
#include "tokenizer/vocabulary_builder.hpp"

namespace pipeline::text {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using strict_json::excerpt;

constexpr const char *kModel = "tokenizer.model", *kAddedTokens = "added_tokens.json",
                     *kTokenizerConfig = "tokenizer_config.json", *kJsonForm = "tokenizer.json";
// special_tokens_map.json says nothing that the others do not; Hugging Face may want it.
constexpr std::array kBeside{kAddedTokens, kTokenizerConfig, "special_tokens_map.json"};

constexpr const char* kLimit = "the tokenizers of Llama 1 and 2 have no other";

constexpr std::string_view kSpace = "\u2581";

// The bytes that a piece stands for.
std::string bytes_of(const sentencepiece::SentencePieceProcessor& model, int id) {
  std::string piece = model.IdToPiece(id);
  if (model.IsControl(id) || model.IsUnknown(id)) return piece;
  if (model.IsByte(id))  // "<0x0A>"
    return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
  for (size_t at = 0; (at = piece.find(kSpace, at)) != piece.npos;) piece.replace(at, kSpace.size(), " ");
  return piece;
}

struct AddedToken {
  std::string text, place;
};

// Of added_tokens.json, {"<image>": 32000}, and added_tokens_decoder of tokenizer_config.json, {"32000":
// {"content": "<image>"}}.
std::map<int64_t, AddedToken> read_added(const json& added, const std::string& added_place,
                                         const Section& config) {
  std::map<int64_t, AddedToken> tokens;
  for (const auto& [text, id] : added.items()) {
    if (!id.is_number_unsigned())
      throw Error(added_place + " " + excerpt(text) + " = " + excerpt(id) +
                  ": must be a non-negative integer");
    tokens[id_of(id)] = {text, added_place + " " + excerpt(text)};
  }
  const json& decoder = config.get("added_tokens_decoder");
  if (decoder.is_null()) return tokens;
  if (!decoder.is_object())
    throw Error(config.place("added_tokens_decoder") + " = " + excerpt(decoder) + ": must be an object");
  for (const auto& [id, value] : decoder.items()) {
    const Section token(value, config.place("added_tokens_decoder." + id), kLimit);
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) token.require(flag, {false});
    const json& content = token.get("content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty())
      throw Error(token.place("content") + " = " + excerpt(content) + ": must be a token");
    if (id.empty() || id.size() > 9 || id.find_first_not_of("0123456789") != id.npos)
      throw Error(config.place("added_tokens_decoder") + ": key " + excerpt(id) + ": must be a token's id");
    tokens[std::stoll(id)] = {content, token.place("content")};
  }
  return tokens;
}

}  // namespace

struct SentencePiece::State {
  State(Files given, const std::string& folder)
      : files(std::move(given)), model({folder + kModel, files.at(kModel)}) {
    const auto& pieces = *model.start;
    for (int id = 0; id < pieces.GetPieceSize(); ++id) {
      tokens.push_back(bytes_of(pieces, id));
      is_special.push_back(pieces.IsControl(id) || pieces.IsUnknown(id));
    }
    const auto read = [&](const char* name) {
      const auto file = files.find(name);
      return file == files.end() ? json::object() : parse_tokenizer_file({folder + name, file->second});
    };
    const json values = read(kTokenizerConfig), added = read(kAddedTokens);
    const Section config(values, folder + kTokenizerConfig + ":", kLimit);
    static_cast<void>(Section(added, folder + kAddedTokens + ":"));  // an object
    add(read_added(added, folder + kAddedTokens + ":", config));
    for (size_t id = 0; id < tokens.size(); ++id)
      if (is_special[id]) special.push_back({tokens[id], static_cast<int32_t>(id)});
    eot = boundary(config, "eos_token", pieces.eos_id());
    bos = boundary(config, "bos_token", pieces.bos_id());
    config.require("add_bos_token", {true, false});
    adds_bos = bos >= 0 && config.get("add_bos_token") != false;
    Fingerprint hash;
    hash.add(files.at(kModel));
    for (const SpecialToken& token : special) {
      hash.add(static_cast<uint64_t>(token.id));
      hash.add(token.text);
    }
    for (const int32_t id : {eot, bos, adds_bos ? 1 : 0}) hash.add(static_cast<uint64_t>(id));
    fingerprint = hash.value();
  }

  void add(const std::map<int64_t, AddedToken>& added) {
    for (const auto& [id, token] : added) {
      const auto at = static_cast<size_t>(id);
      if (at > tokens.size())
        throw Error(token.place + ": " + excerpt(token.text) + " has id " + std::to_string(id) +
                    ": the token before it is missing: " + std::to_string(tokens.size()) + " are there");
      if (at == tokens.size()) {
        tokens.push_back(token.text);
        is_special.push_back(true);
      } else if (tokens[at] != token.text) {
        throw Error(token.place + ": " + excerpt(token.text) + " has id " + std::to_string(id) +
                    ", which is " + excerpt(tokens[at]) + " in " + kModel +
                    ": the files do not belong together");
      }
      is_special[at] = true;
    }
  }

  // The id of a token that the configuration names; where it names none, `otherwise`; -1: none.
  int32_t boundary(const Section& config, const char* key, int32_t otherwise) const {
    const json& value = config.get(key);
    if (value.is_null()) return otherwise;
    const json& text = value.is_object() ? Section(value, config.place(key)).get("content") : value;
    if (!text.is_string()) throw Error(config.place(key) + " = " + excerpt(value) + ": must be a token");
    if (const auto id = find(text.get_ref<const std::string&>())) return *id;
    throw Error(config.place(key) + " = " + excerpt(text) +
                ": is not a special token of the tokenizer: add it there, or name another");
  }

  std::optional<int32_t> find(std::string_view text) const {
    for (const SpecialToken& token : special)
      if (token.text == text) return token.id;
    return std::nullopt;
  }

  Files files;
  SentencePieceModel model;
  std::vector<std::string> tokens;  // bytes by id
  std::vector<bool> is_special;
  std::vector<SpecialToken> special;
  int32_t eot = -1, bos = -1;
  bool adds_bos = false;
  uint64_t fingerprint = 0;
};

fs::path SentencePiece::find_model(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path.extension() == ".model" ? path : fs::path();
  const fs::path model = path / kModel;
  if (!is_there(model)) return {};
  // A model begins with the tag of a piece; Llama 3's file of that name is lines of text.
  constexpr char kPiece = '\x0a';
  return is_there(path / kJsonForm) && !read_file(model).text.starts_with(kPiece) ? fs::path() : model;
}

SentencePiece SentencePiece::load(const fs::path& model) {
  Files files{{kModel, read_file(model).text}};
  const fs::path folder = model.parent_path();
  for (const char* name : kBeside)
    if (is_there(folder / name)) files[name] = read_file(folder / name).text;
  return {std::move(files), (folder / "").string()};
}

SentencePiece::SentencePiece(Files files, const std::string& folder)
    : state_(std::make_shared<const State>(std::move(files), folder)) {}

void SentencePiece::encode_append(std::string_view text, std::vector<int32_t>& ids, SpecialTokens special,
                                  Place place) const {
  if (special == SpecialTokens::kRecognize) {
    while (const auto found = first_special(text, state_->special)) {
      encode_plain(text.substr(0, found->at), place, ids);
      ids.push_back(found->token.id);
      text.remove_prefix(found->at + found->token.text.size());
      place = Place::kWithin;
    }
  }
  encode_plain(text, place, ids);
}

void SentencePiece::encode_plain(std::string_view text, Place place, std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  const auto& model = *(place == Place::kStart ? state_->model.start : state_->model.within);
  const std::vector<int> found = SentencePieceModel::encode(model, text);
  // Some models have their special tokens among the pieces, and the library sees those in any text. Cut in
  // two, such a one is letters.
  const bool sees_special = std::any_of(found.begin(), found.end(), [&](int id) {
    return state_->is_special[static_cast<size_t>(id)] && !model.IsUnknown(id);
  });
  const auto special = sees_special ? first_special(text, state_->special) : std::nullopt;
  if (!special || special->token.text.size() < 2) {
    ids.insert(ids.end(), found.begin(), found.end());
    return;
  }
  const size_t cut = special->at + decode_utf8(text.data() + special->at, text.data() + text.size()).bytes;
  encode_plain(text.substr(0, cut), place, ids);
  encode_plain(text.substr(cut), Place::kWithin, ids);
}

std::string SentencePiece::decode_bytes(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size())
      throw Error("token id = " + std::to_string(id) + ": must be from 0 to " +
                  std::to_string(vocab_size() - 1));
    bytes += state_->tokens[static_cast<size_t>(id)];
  }
  return bytes;
}

std::string SentencePiece::decode(std::span<const int32_t> ids) const {
  std::string text = replace_invalid_utf8(decode_bytes(ids));
  if (state_->model.adds_space && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

int32_t SentencePiece::vocab_size() const { return static_cast<int32_t>(state_->tokens.size()); }

std::optional<int32_t> SentencePiece::special_token(std::string_view text) const {
  return state_->find(text);
}

bool SentencePiece::has_eot() const { return state_->eot >= 0; }

int32_t SentencePiece::eot() const {
  if (!has_eot())
    throw Error(
        "the tokenizer has no end of text: neither tokenizer.model nor tokenizer_config.json (eos_token) "
        "names one");
  return state_->eot;
}

std::optional<int32_t> SentencePiece::bos() const {
  return state_->bos >= 0 ? std::optional(state_->bos) : std::nullopt;
}

bool SentencePiece::adds_bos() const { return state_->adds_bos; }

uint64_t SentencePiece::fingerprint() const { return state_->fingerprint; }

void SentencePiece::save(const std::string& folder) const {
  const fs::path base(folder);
  for (const auto& [name, text] : state_->files) write_file(base / name, text);
  if (!state_->files.contains(kTokenizerConfig)) {
    json config{{"tokenizer_class", "LlamaTokenizer"},
                {"add_bos_token", adds_bos()},
                {"add_eos_token", false},
                {"clean_up_tokenization_spaces", false}};
    const auto name = [&](const char* key, int32_t id) {
      if (id >= 0) config[key] = state_->tokens[static_cast<size_t>(id)];
    };
    name("bos_token", state_->bos);
    name("eos_token", state_->eot);
    name("unk_token", state_->model.start->unk_id());
    write_file(base / kTokenizerConfig, config.dump(2) + "\n");
  }
  if (state_->model.is_llamas)
    write_file(base / kJsonForm,
               format_tokenizer_json(state_->model, state_->special, adds_bos() ? state_->bos : -1));
  sync_folder(base);
}

// The files in CBOR, whose first byte says that it is an object; that of the other kind's is text.
std::string SentencePiece::state() const {
  json files = json::object();
  for (const auto& [name, text] : state_->files)
    files[name] = json::binary(std::vector<uint8_t>(text.begin(), text.end()));
  std::string state;
  json::to_cbor(files, state);
  return state;
}

bool SentencePiece::is_state(std::string_view state) {
  constexpr uint8_t kObject = 0xa0, kKinds = 0xe0;
  return !state.empty() && (static_cast<uint8_t>(state.front()) & kKinds) == kObject;
}

SentencePiece SentencePiece::from_state(std::string_view state, const std::string& name) {
  const json object = json::from_cbor(state, /*strict=*/true, /*allow_exceptions=*/false);
  Files files;
  if (object.is_object())
    for (const auto& [file, text] : object.items())
      if (text.is_binary()) files[file].assign(text.get_binary().begin(), text.get_binary().end());
  if (!files.contains(kModel)) throw Error(name + ": is not the state of a tokenizer: it is damaged");
  return {std::move(files), name + ": "};
}

}  // namespace pipeline::text
