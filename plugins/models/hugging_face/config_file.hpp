#pragma once

#include <pipeline/error.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::hugging_face {

// One config.json, or an object within it. Every error is an Error (PL_ERROR_CONFIG) that names file, key and
// value.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& path);

  // A file whose text is there already; `name` stands for the path.
  static ConfigFile of(const std::string& name, const std::string& text);

  // The object under `key`, as "text_config"; it must be there.
  ConfigFile part(const char* key) const;

  // Reads a value, which stays as it is where the key is absent: transformers' default.
  void read(const char* key, int64_t& value) const;
  void read(const char* key, double& value) const;
  void read(const char* key, bool& value) const;
  void read(const char* key, std::string& value) const;
  void read(const char* key, std::vector<double>& value) const;
  void read(const char* key, std::vector<int64_t>& value) const;
  void read(const char* key, std::vector<std::string>& value) const;

  // `model_type`, which must be one of `accepted`: to be asked before anything else.
  std::string type(const std::vector<const char*>& accepted) const;

  // null counts as absent, as it does in transformers; nullptr: it is absent.
  const nlohmann::json* find(std::string_view key) const;
  std::vector<std::string> keys() const;
  [[noreturn]] void fail(std::string_view key, const std::string& problem) const;
  [[noreturn]] void fail_missing(std::string_view key, const std::string& problem) const;

  // A configuration that was read, after its check(), whose errors get the file's name.
  template <class Config>
  Config checked(Config config) const {
    name_errors([&] { config.check(); });
    return config;
  }
  void name_errors(const std::function<void()>& check) const;

 private:
  ConfigFile() = default;
  void take(const std::string& text);

  std::string path_;
  nlohmann::json values_;
};

// A name from a file, of a field or a tensor, as it may stand in an error: one line, shortened.
std::string shown(std::string_view name);

// For check(): throws an Error (PL_ERROR_CONFIG) that names key, value and what it must be.
void check_range(const char* key, int64_t value, int64_t least, int64_t most);
void check_positive(const char* key, double value);
void check_share(const char* key, double value);  // at least 0 and below 1

// The options in which a model differs from the one in a folder, for one error that says all of them.
class Differences {
 public:
  // `option`: as the configuration writes it ("task.model.n_head"). `theirs`: null where the folder says
  // nothing.
  void compare(const std::string& option, const nlohmann::json& ours, const nlohmann::json& theirs);

  // Throws Error (PL_ERROR_CONFIG) where there are any; `folder` comes first.
  void raise(const std::string& folder) const;

 private:
  std::string lines_;
};

}  // namespace pipeline::hugging_face
