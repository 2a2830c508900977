#include "core/safetensors/folder.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/json/strict_json.hpp"
#include "core/safetensors/error.hpp"

namespace pipeline::safetensors {
namespace {

using nlohmann::json;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// An index comes with weights from elsewhere: it may name files beside it, never a path.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

json parse_index(const std::string& text, const std::string& path) {
  try {
    return strict_json::parse(text, path);
  } catch (const strict_json::Error& error) {
    throw Error(error.what());
  }
}

}  // namespace

Folder Folder::open(const std::string& folder) {
  Folder result;
  result.path_ = folder;
  const std::filesystem::path base(folder);
  std::error_code ignored;
  if (std::filesystem::exists(base / kSingle, ignored)) {
    result.files_.push_back(File::open((base / kSingle).string()));
    for (const TensorView& tensor : result.files_.front().tensors())
      result.index_.emplace(tensor.name, &tensor);
  } else if (std::filesystem::exists(base / kIndex, ignored)) {
    result.open_shards((base / kIndex).string());
  } else {
    throw Error(folder + ": has neither " + kSingle + " nor " + kIndex);
  }
  return result;
}

void Folder::open_shards(const std::string& index_path) {
  std::ifstream stream(index_path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw Error(index_path + ": cannot be read");
  const json index = parse_index(text, index_path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw Error(index_path + ": must be an object with \"weight_map\", an object of file names");

  std::map<std::string, std::string> expected;  // tensor -> shard
  std::map<std::string, size_t> shards;         // shard -> index in files_
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!shard.is_string() || !is_plain_name(shard.get_ref<const std::string&>()))
      throw Error(index_path + ": weight_map[" + strict_json::excerpt(name) +
                  "] = " + strict_json::excerpt(shard) + ": must be the name of a file in the same folder");
    expected.emplace(name, shard.get<std::string>());
    shards.emplace(shard.get<std::string>(), 0);
  }
  for (auto& [shard, position] : shards) {
    position = files_.size();
    files_.push_back(File::open((std::filesystem::path(path_) / shard).string()));
    for (const TensorView& tensor : files_.back().tensors()) {
      const auto mapped = expected.find(tensor.name);
      if (mapped == expected.end() || mapped->second != shard)
        throw Error(files_.back().path() + ": tensor " + strict_json::excerpt(tensor.name) + ": " +
                    index_path + " maps it to " +
                    (mapped == expected.end() ? "no file" : strict_json::excerpt(mapped->second)));
    }
  }
  for (const auto& [name, shard] : expected) {
    const File& file = files_[shards.at(shard)];
    const TensorView* tensor = file.find(name);
    if (tensor == nullptr)
      throw Error(file.path() + ": has no tensor " + strict_json::excerpt(name) + ", which " + index_path +
                  " maps to it");
    index_.emplace(name, tensor);
  }
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : index_) names.push_back(entry.first);
  return names;
}

const TensorView* Folder::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second;
}

const TensorView& Folder::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) return *tensor;
  throw Error(path_ + ": has no tensor " + strict_json::excerpt(std::string(name)) + " among its " +
              std::to_string(size()));
}

}  // namespace pipeline::safetensors
