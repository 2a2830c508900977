#include "core/checkpoint/manifest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/json/strict_json.hpp"
#include "core/safetensors/crc32c.hpp"
#include "core/safetensors/header.hpp"

namespace pipeline::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "pipeline-checkpoint";

// The checksum of everything but itself; nlohmann-json sorts keys and prints numbers so that they come back
// as they were.
std::string checksum_of(Json json) {
  json.erase("checksum");
  const std::string text = json.dump();
  return hex(safetensors::crc32c(0, std::as_bytes(std::span(text))));
}

// Access to one object of the manifest with errors that name the place.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) corrupt(where_ + ": is " + strict_json::excerpt(json_) + ", expected an object");
  }

  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) corrupt(where_ + ": has no \"" + key + "\"");
    return *found;
  }
  std::string text(const char* key) const { return get(key, &Json::is_string, "a string"); }
  uint64_t count(const char* key) const {
    return get(key, &Json::is_number_unsigned, "a whole number of 0 or more");
  }
  const Json& list(const char* key) const { return get(key, &Json::is_array, "a list"); }
  const Json& object(const char* key) const { return get(key, &Json::is_object, "an object"); }
  [[noreturn]] void wrong(const char* key, const std::string& expected) const {
    corrupt(where_ + ": \"" + key + "\" is " + strict_json::excerpt(at(key)) + ", expected " + expected);
  }

 private:
  const Json& get(const char* key, bool (Json::*holds)() const noexcept, const char* expected) const {
    const Json& value = at(key);
    if (!(value.*holds)()) wrong(key, expected);
    return value;
  }

  const Json& json_;
  std::string where_;
};

// JSON has no NaN and no infinity.
Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double parse_number(const Object& object, const char* key) {
  const Json& value = object.at(key);
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  object.wrong(key, "a number");
}

Json metric_json(const std::optional<Metric>& metric) {
  if (!metric) return nullptr;
  return {{"name", metric->name},
          {"value", number_json(metric->value)},
          {"better", metric->higher_is_better ? "higher" : "lower"}};
}

std::optional<Metric> parse_metric(const Object& root, const std::string& path) {
  if (root.at("metric").is_null()) return std::nullopt;
  const Object object(root.object("metric"), path + ": \"metric\"");
  const std::string better = object.text("better");
  if (better != "higher" && better != "lower") object.wrong("better", "higher or lower");
  return Metric{object.text("name"), parse_number(object, "value"), better == "higher"};
}

Json parse_object(const std::string& text, const std::string& what) {
  Json json = strict_json::parse(text, what);
  if (!json.is_object())
    throw strict_json::JsonError(what + ": is " + strict_json::excerpt(json) + ", expected an object");
  return json;
}

Json tensor_json(const Tensor& tensor) {
  Json extents = Json::array();
  for (const Extent& extent : tensor.extents) {
    extents.push_back(
        {{"offset", extent.offset}, {"count", extent.count}, {"file", extent.file}, {"name", extent.name}});
  }
  return {{"kind", tensor.kind},
          {"parameter", tensor.parameter},
          {"dtype", tensor.dtype},
          {"shape", tensor.shape},
          {"extents", std::move(extents)}};
}

Tensor parse_tensor(const Json& json, size_t file_count, const std::string& path) {
  const Object object(json, path + ": an entry of \"tensors\"");
  Tensor tensor{object.text("kind"), object.text("parameter"), object.text("dtype"), {}, {}};
  const std::string where = path + ": tensor " + tensor_label(tensor.kind, tensor.parameter);
  const Object named(json, where);
  for (const Json& extent : named.list("shape")) {
    if (!extent.is_number_unsigned()) named.wrong("shape", "a list of whole numbers of 0 or more");
    tensor.shape.push_back(extent.get<int64_t>());
  }
  const std::optional<safetensors::Dtype> dtype = safetensors::dtype_from_name(tensor.dtype);
  if (!dtype) named.wrong("dtype", "one that safetensors has");
  safetensors::byte_size(*dtype, tensor.shape, where);
  for (const Json& entry : named.list("extents")) {
    const Object extent(entry, where);
    tensor.extents.push_back(
        {extent.count("offset"), extent.count("count"), extent.count("file"), extent.text("name")});
    if (tensor.extents.back().file >= file_count)
      extent.wrong("file", "less than " + std::to_string(file_count));
  }
  return tensor;
}

// Names that an object has only where there are any.
std::vector<std::string> parse_names(const Object& object, const Json& json, const char* key) {
  std::vector<std::string> names;
  if (!json.contains(key)) return names;
  for (const Json& name : object.list(key)) {
    if (!name.is_string()) object.wrong(key, "a list of names");
    names.push_back(name);
  }
  return names;
}

Json to_json(const std::vector<Change>& changes) {
  Json json = Json::array();
  for (const Change& change : changes)
    json.push_back(
        {{"step", change.step}, {"key", change.key}, {"before", change.before}, {"now", change.now}});
  return json;
}

std::vector<Change> changes_of(const Json& list, const std::string& where) {
  std::vector<Change> changes;
  for (const Json& entry : list) {
    const Object object(entry, where);
    changes.push_back({object.count("step"), object.text("key"), object.text("before"), object.text("now")});
  }
  return changes;
}

StoredFile parse_file(const Json& json, const std::string& path) {
  const Object object(json, path + ": an entry of \"files\"");
  const std::optional<uint32_t> crc = from_hex(object.text("crc32c"));
  if (!crc) object.wrong("crc32c", "eight hexadecimal digits");
  StoredFile file{object.text("name"), object.count("bytes"), *crc};
  if (file.name.empty() || file.name.find('/') != std::string::npos)
    object.wrong("name", "a plain file name");
  return file;
}

Json to_json(const std::vector<StoredFile>& files) {
  Json json = Json::array();
  for (const StoredFile& file : files)
    json.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32c", hex(file.crc32c)}});
  return json;
}

LeftOut parse_left_out(const Object& root, const Json& json, const std::string& path) {
  LeftOut left_out;
  if (!json.contains("left_out")) return left_out;
  const Json& value = root.object("left_out");
  const Object object(value, path + ": \"left_out\"");
  left_out.parameters = parse_names(object, value, "parameters");
  left_out.folder = object.text("folder");
  for (const Json& file : object.list("files")) left_out.files.push_back(parse_file(file, path));
  return left_out;
}

Manifest parse(std::string_view text, const std::string& path) {
  const Json json = strict_json::parse(text, path);
  const Object root(json, path);
  if (!json.contains("format") || json["format"] != kFormat)
    corrupt(path + ": is not a manifest of this program: \"format\" is " +
            (json.contains("format") ? strict_json::excerpt(json["format"]) : "missing") + ", expected \"" +
            kFormat + "\"");
  if (const uint64_t version = root.count("version"); version != kFormatVersion)
    throw Error(PL_ERROR_UNSUPPORTED, path + ": format version " + std::to_string(version) +
                                          ", this program reads " + std::to_string(kFormatVersion) +
                                          ": use the newer program that wrote it");
  if (const std::string actual = checksum_of(json); root.text("checksum") != actual)
    corrupt(path + ": is damaged: its checksum says " + root.text("checksum") + ", its content has " +
            actual);
  Manifest manifest;
  manifest.contents = {root.count("step"),
                       root.object("train_state").dump(),
                       root.text("config"),
                       root.object("identity").dump(),
                       parse_metric(root, path),
                       parse_names(root, json, "droppable"),
                       json.contains("changes")
                           ? changes_of(root.list("changes"), path + ": an entry of \"changes\"")
                           : std::vector<Change>(),
                       parse_left_out(root, json, path)};
  manifest.world_size = static_cast<int>(root.count("world_size"));
  for (const Json& file : root.list("files")) manifest.files.push_back(parse_file(file, path));
  for (const Json& tensor : root.list("tensors"))
    manifest.tensors.push_back(parse_tensor(tensor, manifest.files.size(), path));
  return manifest;
}

}  // namespace

std::string format_changes(const std::vector<Change>& changes) { return to_json(changes).dump(1) + "\n"; }

std::vector<Change> parse_changes(std::string_view text, const std::string& path) {
  const Json json = strict_json::parse(text, path);
  if (!json.is_array()) corrupt(path + ": is " + strict_json::excerpt(json) + ", expected a list");
  return changes_of(json, path + ": an entry");
}

std::string format_manifest(const Manifest& manifest, const std::string& path) {
  const Contents& contents = manifest.contents;
  try {
    Json json = {{"format", kFormat},
                 {"version", kFormatVersion},
                 {"step", contents.step},
                 {"world_size", manifest.world_size},
                 {"train_state", parse_object(contents.train_state_json, "train_state")},
                 {"identity", parse_object(contents.identity_json, "identity")},
                 {"config", contents.config_toml},
                 {"metric", metric_json(contents.metric)},
                 {"files", to_json(manifest.files)},
                 {"tensors", Json::array()}};
    for (const Tensor& tensor : manifest.tensors) json["tensors"].push_back(tensor_json(tensor));
    if (!contents.droppable.empty()) json["droppable"] = contents.droppable;
    if (!contents.changes.empty()) json["changes"] = to_json(contents.changes);
    if (const LeftOut& left_out = contents.left_out; !left_out.parameters.empty())
      json["left_out"] = {{"parameters", left_out.parameters},
                          {"folder", left_out.folder},
                          {"files", to_json(left_out.files)}};
    json["checksum"] = checksum_of(json);
    return json.dump(1) + "\n";
  } catch (const strict_json::JsonError& error) {
    throw Error(PL_ERROR_FAILED, path + ": " + error.what());
  } catch (const Json::exception& error) {  // text that is not UTF-8
    throw Error(PL_ERROR_FAILED, path + ": " + error.what());
  }
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  try {
    return parse(text, path);
  } catch (const strict_json::JsonError& error) {
    corrupt(error.what());
  } catch (const safetensors::SafetensorsError& error) {
    corrupt(error.what());
  }
}

void merge(Manifest& into, const Manifest& share, const std::string& path) {
  const size_t first_file = into.files.size();
  into.files.insert(into.files.end(), share.files.begin(), share.files.end());
  std::map<std::pair<std::string, std::string>, size_t> index;
  for (size_t i = 0; i < into.tensors.size(); ++i)
    index[{into.tensors[i].kind, into.tensors[i].parameter}] = i;
  for (Tensor tensor : share.tensors) {
    for (Extent& extent : tensor.extents) extent.file += first_file;
    const auto [found, is_new] = index.try_emplace({tensor.kind, tensor.parameter}, into.tensors.size());
    if (is_new) {
      into.tensors.push_back(std::move(tensor));
      continue;
    }
    Tensor& whole = into.tensors[found->second];
    if (whole.dtype != tensor.dtype || whole.shape != tensor.shape)
      throw Error(PL_ERROR_FAILED, path + ": tensor " + tensor_label(tensor.kind, tensor.parameter) +
                                       ": two pieces disagree: " + whole.dtype + " " +
                                       safetensors::shape_string(whole.shape) + " and " + tensor.dtype + " " +
                                       safetensors::shape_string(tensor.shape));
    whole.extents.insert(whole.extents.end(), tensor.extents.begin(), tensor.extents.end());
  }
  for (Tensor& tensor : into.tensors) {
    std::stable_sort(tensor.extents.begin(), tensor.extents.end(),
                     [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  }
}

Manifest Manifest::of_file(std::string_view name) const {
  Manifest share;
  const auto file = std::ranges::find(files, name, &StoredFile::name);
  if (file == files.end()) return share;
  share.files = {*file};
  for (Tensor tensor : tensors) {
    std::erase_if(tensor.extents, [&](const Extent& e) { return &files[e.file] != &*file; });
    for (Extent& extent : tensor.extents) extent.file = 0;
    if (!tensor.extents.empty()) share.tensors.push_back(std::move(tensor));
  }
  return share;
}

void check_coverage(const Manifest& manifest, const std::string& path) {
  for (const Tensor& tensor : manifest.tensors) {
    const std::string where = path + ": tensor " + tensor_label(tensor.kind, tensor.parameter);
    const uint64_t count = element_count(tensor.shape);
    uint64_t covered = 0;
    for (const Extent& extent : tensor.extents) {
      if (extent.offset > covered) break;
      if (extent.offset < covered)
        corrupt(where + ": elements from " + std::to_string(extent.offset) + " on are there twice");
      if (extent.count > count - covered)
        corrupt(where + ": pieces reach beyond its " + std::to_string(count) + " elements");
      covered += extent.count;
    }
    if (covered < count) corrupt(where + ": elements from " + std::to_string(covered) + " on are in no file");
  }
}

void corrupt(const std::string& message) { throw Error(PL_ERROR_CORRUPT, message); }

uint64_t element_count(const std::vector<int64_t>& shape) {
  uint64_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<uint64_t>(extent);
  return count;
}

std::string tensor_label(std::string_view kind, std::string_view parameter) {
  return parameter.empty() ? std::string(kind) : std::string(kind) + "/" + std::string(parameter);
}

}  // namespace pipeline::checkpoint
