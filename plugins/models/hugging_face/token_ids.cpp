#include "hugging_face/token_ids.hpp"

#include <pipeline/error.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/json/strict_json.hpp"
#include "files/regular_file.hpp"
#include "hugging_face/weights.hpp"

namespace pipeline::hugging_face {
namespace {

using nlohmann::ordered_json;  // files keep the order of their fields

constexpr const char *kModel = "config.json", *kGeneration = "generation_config.json", *kText = "text_config",
                     *kBegin = "bos_token_id", *kEnd = "eos_token_id", *kPadding = "pad_token_id";
constexpr std::initializer_list<const char*> kKeys{kBegin, kEnd, kPadding};

// The object in one of the files; an empty one where it is not there.
ordered_json read(const FolderTexts& texts, const char* file, const std::string& folder) {
  const auto found = texts.find(file);
  if (found == texts.end()) return ordered_json::object();
  const std::string path = folder + "/" + file;
  try {
    ordered_json object = strict_json::parse_ordered(found->second, path);
    if (object.is_object()) return object;
    fail_with(PL_ERROR_CONFIG, path, ": is ", strict_json::excerpt(nlohmann::json(object)),
              ": must be a JSON object");
  } catch (const strict_json::JsonError& error) {
    fail_with(PL_ERROR_CONFIG, error.what());
  }
}

// The language model's part of a config.json.
ordered_json& language_of(ordered_json& config) {
  return config.contains(kText) && config[kText].is_object() ? config[kText] : config;
}

std::vector<int64_t> ids_of(const ordered_json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  std::vector<int64_t> ids;
  const auto add = [&](const ordered_json& id) {
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<uint64_t>() > uint64_t{INT64_MAX}))
      fail_with(PL_ERROR_CONFIG, place, ": ", key, " = ", strict_json::excerpt(nlohmann::json(*found)),
                ": must be a token's number, or a list of such numbers");
    ids.push_back(id.get<int64_t>());
  };
  if (found->is_array())
    for (const ordered_json& id : *found) add(id);
  else
    add(*found);
  return ids;
}

// One number, or a list where there are more.
ordered_json written(const std::vector<int64_t>& ids) {
  return ids.size() == 1 ? ordered_json(ids.front()) : ordered_json(ids);
}

// The ids that both files have under a key, each once, rising.
std::set<int64_t> all_ids(const FolderTexts& texts, const char* key, const std::string& folder) {
  std::set<int64_t> all;
  for (const char* file : {kModel, kGeneration}) {
    ordered_json object = read(texts, file, folder);
    for (const ordered_json* part : {&object, &language_of(object)})
      for (const int64_t id : ids_of(*part, key, folder + "/" + file)) all.insert(id);
  }
  return all;
}

void set_value(const std::string& folder, const char* name, const char* key, const ordered_json& value) {
  const std::string path = folder + "/" + name;
  if (!std::filesystem::exists(path)) return;
  ordered_json values = strict_json::parse_ordered(files::read_regular(path, files::kMostSettings), path);
  values[key] = value;
  write_text(path, values.dump(2) + "\n");
}

}  // namespace

std::vector<int64_t> end_tokens(const FolderTexts& texts, const OwnTokens& own) {
  std::vector<int64_t> ends{own.end};
  for (const int64_t id : all_ids(texts, kEnd, "the weights' folder"))
    if (id != own.end && own.is_own(id)) ends.push_back(id);
  return ends;
}

std::vector<std::string> unknown_tokens(const FolderTexts& texts, const OwnTokens& own,
                                        const std::string& folder) {
  std::vector<std::string> lines;
  for (const auto& [key, here] : {std::pair(kBegin, own.begin), {kEnd, own.end}})
    for (const int64_t id : all_ids(texts, key, folder))
      if (!own.is_own(id))
        lines.push_back(concat(folder, ": ", key, " = ", id, " there; here it is ", here,
                               ", the tokenizer's ", here == own.end ? "end" : "begin", " of text"));
  return lines;
}

FolderTexts without_unknown(FolderTexts texts, const OwnTokens& own, const std::string& folder) {
  for (const char* file : {kModel, kGeneration}) {
    ordered_json object = read(texts, file, folder);
    const ordered_json before = object;
    for (ordered_json* part : {&object, &language_of(object)})
      for (const char* key : kKeys) {
        std::vector<int64_t> ids = ids_of(*part, key, folder + "/" + file);
        if (std::erase_if(ids, [&](int64_t id) { return !own.is_own(id); }) == 0) continue;
        if (ids.empty())
          part->erase(key);
        else
          (*part)[key] = written(ids);
      }
    if (object != before) texts[file] = object.dump(2) + "\n";
  }
  return texts;
}

void write_token_ids(const std::string& folder, const FolderTexts& texts, const OwnTokens& own) {
  const std::string path = folder + "/" + kModel;
  ordered_json model = strict_json::parse_ordered(files::read_regular(path, files::kMostSettings), path);
  // Takes what `from` has, else what `into` has; `ends` join the tokens that end a text.
  const auto take = [&](const ordered_json& from, ordered_json& into, const std::vector<int64_t>& ends) {
    for (const char* key : kKeys) {
      std::vector<int64_t> ids = ids_of(from, key, folder);
      const size_t unknown = std::erase_if(ids, [&](int64_t id) { return !own.is_own(id); });
      const bool is_kept = from.contains(key) && unknown == 0;
      if (is_kept) into[key] = from[key];
      if (ids.empty() && !is_kept) ids = ids_of(into, key, folder);
      size_t added = 0;
      for (const int64_t end : ends)
        if (key == kEnd && std::find(ids.begin(), ids.end(), end) == ids.end()) {
          ids.push_back(end);
          ++added;
        }
      if (!ids.empty() && (added > 0 || !is_kept)) into[key] = written(ids);
    }
  };
  ordered_json theirs = read(texts, kModel, folder);
  const bool has_end = all_ids(texts, kEnd, folder).contains(own.end);
  take(language_of(theirs), language_of(model), has_end ? std::vector<int64_t>() : std::vector{own.end});
  if (theirs.contains(kText) && model.contains(kText)) take(theirs, model, {});
  write_text(path, model.dump(2) + "\n");

  const ordered_json kept = read(texts, kGeneration, folder);
  ordered_json generation = kept;
  take(kept.empty() ? language_of(model) : kept, generation, end_tokens(texts, own));
  write_text(folder + "/" + kGeneration, generation.dump(2) + "\n");
}

std::optional<int64_t> padding_of(const std::string& folder) {
  const std::string path = folder + "/" + kModel;
  const ordered_json model =
      strict_json::parse_ordered(files::read_regular(path, files::kMostSettings), path);
  const auto found = model.find(kPadding);
  if (found == model.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

void set_padding(const std::string& folder, int64_t token, const std::string& text) {
  set_value(folder, kModel, kPadding, token);
  set_value(folder, "tokenizer_config.json", "pad_token", text);
}

void set_text_types(const std::string& folder) {
  set_value(folder, "tokenizer_config.json", "model_input_names",
            {"input_ids", "token_type_ids", "attention_mask"});
}

}  // namespace pipeline::hugging_face
