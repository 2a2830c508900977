#pragma once

#include <pipeline/model_options.hpp>

#include <filesystem>
#include <string>
#include <utility>

namespace pipeline::hugging_face {

// Says of the options below a table what a folder's file says. `table`: "language.".
class FolderTeller {
 public:
  FolderTeller(const ModelOptions& say, std::string table, std::filesystem::path file)
      : say_(say), table_(std::move(table)), file_(std::move(file)) {}

  template <class T>
  void operator()(const char* key, const T& value) const {
    say_(table_ + key, value, file_);
  }
  // `set` is as good as `value`, where the user has set it.
  template <class T>
  void operator()(const char* key, const T& value, const T& set, bool is_as_good) const {
    (*this)(key, say_.is_set(table_ + key) && is_as_good ? set : value);
  }

 private:
  const ModelOptions& say_;
  std::string table_;
  std::filesystem::path file_;
};

}  // namespace pipeline::hugging_face
