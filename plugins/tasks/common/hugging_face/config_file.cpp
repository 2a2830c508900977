#include "plugins/tasks/common/hugging_face/config_file.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "core/json/strict_json.hpp"

namespace pipeline::hugging_face {

using nlohmann::json;

ConfigFile::ConfigFile(const std::string& path) : path_(path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error(path + ": cannot be read: a Hugging Face model folder has a config.json");
  std::stringstream text;
  text << file.rdbuf();
  values_ = strict_json::parse(text.str(), path);
  if (!values_.is_object())
    throw std::runtime_error(path + ": is " + strict_json::excerpt(values_) + ": must be a JSON object");
}

void ConfigFile::read(const char* key, int64_t& value) const {
  if (const json* found = find(key)) {
    if (!found->is_number_integer()) fail(key, "must be an integer");
    value = found->get<int64_t>();
  }
}

void ConfigFile::read(const char* key, double& value) const {
  if (const json* found = find(key)) {
    if (!found->is_number()) fail(key, "must be a number");
    value = found->get<double>();
  }
}

void ConfigFile::read(const char* key, bool& value) const {
  if (const json* found = find(key)) {
    if (!found->is_boolean()) fail(key, "must be true or false");
    value = found->get<bool>();
  }
}

void ConfigFile::expect(const char* key, const json& expected) const {
  const json* found = find(key);
  if (found && *found != expected) fail(key, "only " + expected.dump() + " is supported");
}

void ConfigFile::require(const char* key, const json& expected) const {
  if (!find(key)) throw std::runtime_error(path_ + ": " + key + " is missing: must be " + expected.dump());
  expect(key, expected);
}

void ConfigFile::fail(const char* key, const std::string& problem) const {
  throw std::runtime_error(path_ + ": " + key + " = " + strict_json::excerpt(values_.at(key)) + ": " + problem);
}

const json* ConfigFile::find(const char* key) const {
  const auto found = values_.find(key);
  return found == values_.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace pipeline::hugging_face
