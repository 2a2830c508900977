#pragma once

#include <string>
#include <unordered_map>

#include "plugins/tasks/common/files/file_state.hpp"
#include "plugins/tasks/common/files/hash128.hpp"

namespace pipeline::protein {

// What the content of each file hashed to when it was last read, so that one whose state is the same need not be read again.
class FileIndex {
 public:
  // <folder>/protein-files-<hash of the root's path>.index
  static std::string path_in(const std::string& folder, const std::string& root);

  FileIndex() = default;
  // Empty if there is no file, or one that is damaged or of another version: then problem() says so.
  explicit FileIndex(const std::string& path);

  const std::string& problem() const { return problem_; }
  // nullptr if the file is not known, or not in this state.
  const files::Hash128* find(const std::string& relative, const files::FileState& state) const;
  void set(const std::string& relative, const files::FileState& state, const files::Hash128& hash);
  // Replaces the file at once. Throws DataError.
  void save(const std::string& path) const;

 private:
  struct Entry {
    files::FileState state;
    files::Hash128 hash;
  };
  bool parse(std::string_view bytes);

  std::unordered_map<std::string, Entry> entries_;
  std::string problem_;
};

}  // namespace pipeline::protein
