#include "tokenizer/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "files/hash128.hpp"
#include "hugging_face/token_ids.hpp"
#include "tokenizer/byte_level_bpe.hpp"
#include "tokenizer/sentence_piece.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/vocabulary_builder.hpp"
#include "tokenizer/word_tokenizer.hpp"

namespace pipeline::tokenizer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::initializer_list<const char*> kTokens{"tokenizer.json", "tokenizer.model", "spiece.model",
                                                     "vocab.json",     "merges.txt",      "vocab.txt"};
constexpr std::initializer_list<const char*> kOlderTokens{"encoder.json", "vocab.bpe"};
constexpr std::initializer_list<const char*> kBesideTokens{"tokenizer_config.json", "special_tokens_map.json",
                                                           "added_tokens.json", "chat_template.jinja",
                                                           "chat_template.json"};
constexpr const char *kTemplates = "additional_chat_templates", *kTemplate = ".jinja";

bool is_template(const fs::path& name) {
  return name.parent_path() == kTemplates && name.extension() == kTemplate;
}

bool is_one_of(std::initializer_list<const char*> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string read_kept(const fs::path& path) {
  std::string text = read_file(path, files::kMostSettings).text;
  if (const size_t at = first_invalid_utf8(text); at != text.npos)
    throw TokenizerError(path.string() + ": is not UTF-8 at byte " + std::to_string(at) +
                         ": save it as UTF-8");
  if (path.extension() == ".json") static_cast<void>(parse_tokenizer_file({path.string(), text}));
  return text;
}

TokenizerPtr read_tokenizer(const std::string& path) {
  if (const auto model = SentencePiece::find_model(path); !model.empty())
    return std::make_shared<const SentencePiece>(SentencePiece::load(model));
  if (const auto words = WordTokenizer::find(path); !words.empty())
    return std::make_shared<const WordTokenizer>(WordTokenizer::load(words));
  return std::make_shared<const ByteLevelBpe>(ByteLevelBpe::load(path));
}

// A hash of the path and of all files there that a tokenizer may be read from; none where one cannot be read.
std::optional<files::Hash128> content_of(const fs::path& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path folder = is_folder ? path : path.has_parent_path() ? path.parent_path() : ".";
  std::set<fs::path> all;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (is_one_of(kTokens, name) || is_one_of(kOlderTokens, name) || is_one_of(kBesideTokens, name) ||
        (!is_folder && name == path.filename()))
      all.insert(at->path());
  }
  if (error) return std::nullopt;
  for (fs::directory_iterator at(folder / kTemplates, error), end; !error && at != end; at.increment(error))
    all.insert(at->path());
  files::Hasher128 hasher;
  hasher.update_text(path.string());
  try {
    for (const fs::path& file : all) hasher.update_text(file.string()).update_text(read_file(file).text);
  } catch (const TokenizerError&) {
    return std::nullopt;
  }
  return hasher.finish();
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text, SpecialTokens special, TextPlace place) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);  // English has more than 4 bytes a token, many scripts fewer than 3
  encode_append(text, ids, special, place);
  return ids;
}

bool has_tokenizer(const std::filesystem::path& folder) {
  return SentencePiece::has_model(folder) || has_byte_level_files(folder) ||
         !WordTokenizer::find(folder).empty();
}

TokenizerPtr load_tokenizer(const std::string& path) {
  static std::mutex mutex;
  static std::optional<files::Hash128> last_content;
  static TokenizerPtr last;
  const std::optional<files::Hash128> content = content_of(path);
  const std::lock_guard lock(mutex);
  if (!content || content != last_content) {
    last_content.reset();
    last.reset();
    last = read_tokenizer(path);
    last_content = content;
  }
  return last;
}

TokenizerPtr tokenizer_of_state(std::string_view state, const std::string& name) {
  if (is_packed(state)) {
    const NamedFiles files = named(unpack(state, name), name + ": ");
    if (SentencePiece::is_kind_of(files)) return std::make_shared<const SentencePiece>(files);
    if (WordTokenizer::is_kind_of(files)) return std::make_shared<const WordTokenizer>(files);
  }
  return std::make_shared<const ByteLevelBpe>(ByteLevelBpe::from_state(state, name));
}

// A checkpoint comes from anywhere: what it has is written under these names alone.
bool is_folder_file(const std::string& name) {
  return is_one_of(kTokens, name) || is_one_of(kBesideTokens, name) || is_one_of(kModelFiles, name) ||
         is_template(name) || name == hugging_face::kWeightsText;
}

Files files_of(const fs::path& folder, std::initializer_list<const char*> names) {
  Files files;
  for (const char* name : names)
    if (is_there(folder / name)) files[name] = read_kept(folder / name);
  return files;
}

Files files_beside_tokenizer(const fs::path& folder) {
  constexpr size_t kMostTemplates = 64;
  Files files = files_of(folder, kBesideTokens);
  std::error_code error;
  size_t count = 0;
  for (fs::directory_iterator at(folder / kTemplates, error), end; !error && at != end; at.increment(error)) {
    const fs::path name = fs::path(kTemplates) / at->path().filename();
    if (!is_template(name)) continue;
    if (++count > kMostTemplates)
      throw TokenizerError((folder / kTemplates).string() + ": has more than " +
                           std::to_string(kMostTemplates) +
                           " templates: take away those that are not needed");
    files[name.string()] = read_kept(at->path());
  }
  return files;
}

bool is_of_folder(const Files& tokenizer, const fs::path& folder) {
  bool has_own = false;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json"}) {
    std::error_code error;
    if (!fs::exists(folder / name, error)) continue;
    has_own = true;
    const auto found = tokenizer.find(name);
    std::ifstream file(folder / name, std::ios::binary);
    if (found != tokenizer.end() && std::string(std::istreambuf_iterator<char>(file), {}) == found->second)
      return true;
  }
  return !has_own;
}

// Packs in CBOR, whose first byte says that it is an object.
std::string pack(const Files& files) {
  json object = json::object();
  for (const auto& [name, text] : files)
    object[name] = json::binary(std::vector<uint8_t>(text.begin(), text.end()));
  std::string packed;
  json::to_cbor(object, packed);
  return packed;
}

bool is_packed(std::string_view text) {
  constexpr uint8_t kObject = 0xa0, kKinds = 0xe0;
  return !text.empty() && (static_cast<uint8_t>(text.front()) & kKinds) == kObject;
}

Files unpack(std::string_view text, const std::string& name) {
  json object;
  try {
    object = strict_json::parse_cbor(text, name);
  } catch (const strict_json::JsonError&) {  // is no better than another kind of value
  }
  if (!object.is_object()) throw TokenizerError(name + ": is not the state of a tokenizer: it is damaged");
  Files files;
  for (const auto& [file, content] : object.items()) {
    if (!is_folder_file(file) || !content.is_binary())
      throw TokenizerError(name + ": has " + strict_json::excerpt(file) +
                           ", which is no file of a tokenizer: it is damaged, or of a newer version");
    files[file].assign(content.get_binary().begin(), content.get_binary().end());
  }
  return files;
}

void write_tokenizer_files(const Files& files, const fs::path& folder) {
  for (const auto& [name, text] : files) {
    if (is_one_of(kModelFiles, name) || name == hugging_face::kWeightsText) continue;
    if (is_template(name)) {
      std::error_code error;
      fs::create_directory(folder / kTemplates, error);
      if (error)
        throw TokenizerError((folder / kTemplates).string() + ": cannot be made: " + error.message(),
                             error.value());
    }
    write_file(folder / name, text);
  }
  sync_folder(folder);
}

int32_t Tokenizer::eot() const {
  if (!has_eot()) throw TokenizerError(facts_.no_eot);
  return facts_.eot;
}

void Tokenizer::check_id(int32_t id) const {
  if (id < 0 || id >= vocab_size())
    throw TokenizerError("token id = " + std::to_string(id) + ": must be from 0 to " +
                         std::to_string(vocab_size() - 1));
}

}  // namespace pipeline::tokenizer
