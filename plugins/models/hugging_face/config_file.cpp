#include "hugging_face/config_file.hpp"

#include <filesystem>
#include <limits>

#include "core/base/foreign.hpp"
#include "core/base/utf8.hpp"
#include "core/json/strict_json.hpp"
#include "files/regular_file.hpp"

namespace pipeline::hugging_face {

using nlohmann::json;

std::string shown(std::string_view name) {
  constexpr size_t kMostBytes = 200;
  return printable(name.substr(0, kMostBytes), "") + (name.size() > kMostBytes ? "..." : "");
}

ConfigFile::ConfigFile(const std::string& path) : path_(path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown) && !unknown) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (const std::string found = foreign::folder(folder); !found.empty())
      fail_with(PL_ERROR_CONFIG, folder.string(), ": ", found);
    fail_with(PL_ERROR_CONFIG, path, ": is not there: a Hugging Face model folder has a config.json");
  }
  std::string text;
  try {
    text = files::read_regular(path, files::kMostSettings);
  } catch (const std::exception& error) {
    fail_with(PL_ERROR_CONFIG, error.what());
  }
  take(text);
}

ConfigFile ConfigFile::of(const std::string& name, const std::string& text) {
  ConfigFile file;
  file.path_ = name;
  file.take(text);
  return file;
}

void ConfigFile::take(const std::string& text) {
  try {
    values_ = strict_json::parse(text, path_);
  } catch (const std::exception& error) {
    fail_with(PL_ERROR_CONFIG, error.what());
  }
  if (!values_.is_object())
    fail_with(PL_ERROR_CONFIG, path_, ": is ", strict_json::excerpt(values_), ": must be a JSON object");
}

void ConfigFile::read(const char* key, int64_t& value) const {
  if (const json* found = find(key)) {
    if (!found->is_number_integer()) fail(key, "must be an integer");
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (found->is_number_unsigned() && found->get<uint64_t>() > kMost)
      fail(key, "must be at most " + std::to_string(kMost));
    value = found->get<int64_t>();
  }
}

void ConfigFile::read(const char* key, double& value) const {
  const json* found = find(key);
  if (found && !found->is_number()) fail(key, "must be a number");
  if (found) value = found->get<double>();
}

void ConfigFile::read(const char* key, bool& value) const {
  const json* found = find(key);
  if (found && !found->is_boolean()) fail(key, "must be true or false");
  if (found) value = found->get<bool>();
}

void ConfigFile::read(const char* key, std::string& value) const {
  const json* found = find(key);
  if (found && !found->is_string()) fail(key, "must be a string");
  if (found) value = found->get<std::string>();
}

namespace {

// A list of which `is` holds for each value.
template <class T>
void read_list(const ConfigFile& file, const char* key, bool (json::*is)() const noexcept, const char* what,
               std::vector<T>& value) {
  const json* found = file.find(key);
  if (!found) return;
  if (!found->is_array() || !std::ranges::all_of(*found, [&](const json& one) { return (one.*is)(); }))
    file.fail(key, concat("must be a list of ", what));
  value = found->get<std::vector<T>>();
}

}  // namespace

void ConfigFile::read(const char* key, std::vector<double>& value) const {
  read_list(*this, key, &json::is_number, "numbers", value);
}

void ConfigFile::read(const char* key, std::vector<int64_t>& value) const {
  read_list(*this, key, &json::is_number_integer, "integers", value);
}

void ConfigFile::read(const char* key, std::vector<std::string>& value) const {
  read_list(*this, key, &json::is_string, "names", value);
}

ConfigFile ConfigFile::part(const char* key) const {
  const json* found = find(key);
  if (!found) fail_missing(key, "must be an object");
  if (!found->is_object()) fail(key, "must be an object");
  ConfigFile inner;
  inner.path_ = path_ + ": " + key;
  inner.values_ = *found;
  return inner;
}

std::string ConfigFile::type(const std::vector<const char*>& accepted) const {
  std::string is, list;
  read("model_type", is);
  for (const char* one : accepted) {
    if (is == one) return is;
    list += concat(list.empty() ? "" : ", ", one);
  }
  if (is.empty()) fail_missing("model_type", "says what the model is; accepted are " + list);
  fail("model_type",
       concat("this is ", std::string_view("aeiou").find(is.front()) != std::string_view::npos ? "an " : "a ",
              is, " model; accepted are ", list, ": name the folder of one of these"));
}

void ConfigFile::fail(std::string_view key, const std::string& problem) const {
  if (!values_.contains(key)) fail_missing(key, problem);
  fail_with(PL_ERROR_CONFIG, path_, ": ", shown(key), " = ", strict_json::excerpt(values_.at(key)), ": ",
            problem);
}

void ConfigFile::fail_missing(std::string_view key, const std::string& problem) const {
  fail_with(PL_ERROR_CONFIG, path_, ": ", shown(key), " is missing: ", problem);
}

std::vector<std::string> ConfigFile::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values_.items()) keys.push_back(key);
  return keys;
}

const json* ConfigFile::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() || found->is_null() ? nullptr : &*found;
}

void check_range(const char* key, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    fail_with(PL_ERROR_CONFIG, key, " = ", value, ": must be ", least, " to ", most);
}

void check_positive(const char* key, double value) {
  if (!(value > 0)) fail_with(PL_ERROR_CONFIG, key, " = ", value, ": must be above 0");
}

void check_share(const char* key, double value) {
  if (!(value >= 0 && value < 1))
    fail_with(PL_ERROR_CONFIG, key, " = ", value, ": must be at least 0 and below 1");
}

void Differences::compare(const std::string& option, const json& ours, const json& theirs) {
  if (ours == theirs) return;
  lines_ += "\n  " + option + " = " + ours.dump() + ", the folder has " +
            (theirs.is_null() ? "none" : theirs.dump());
}

void Differences::raise(const std::string& folder) const {
  if (lines_.empty()) return;
  fail_with(
      PL_ERROR_CONFIG, folder,
      ": the model there is another one; set these options to what it has, or take another folder:", lines_);
}

void ConfigFile::name_errors(const std::function<void()>& check) const {
  try {
    check();
  } catch (const Error& error) {
    fail_with(PL_ERROR_CONFIG, path_, ": ", error.what());
  }
}

}  // namespace pipeline::hugging_face
