#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace pipeline::hugging_face {

// One config.json. Every error is a std::runtime_error that names file, key and value.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& path);

  // Where the key is absent `value` stays as it is: transformers' default.
  void read(const char* key, int64_t& value) const;
  void read(const char* key, double& value) const;
  void read(const char* key, bool& value) const;

  // Absent is right, too: then transformers uses `expected`.
  void expect(const char* key, const nlohmann::json& expected) const;
  void require(const char* key, const nlohmann::json& expected) const;

  // null counts as absent, as it does in transformers; nullptr when it is.
  const nlohmann::json* find(const char* key) const;
  [[noreturn]] void fail(const char* key, const std::string& problem) const;

 private:
  std::string path_;
  nlohmann::json values_;
};

}  // namespace pipeline::hugging_face
