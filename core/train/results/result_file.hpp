#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace pipeline::train {

// A file that is there whole or not at all; opened before the work that fills it, so that a wrong path shows
// at once.
class ResultFile {
 public:
  // `remedy`: what the user can do about a path that cannot be written, as in "choose another --output".
  // Throws Error with path, cause and remedy.
  ResultFile(std::filesystem::path path, std::string remedy);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(std::string_view text);

 private:
  std::filesystem::path path_, temporary_;
  std::string remedy_;
};

// Throw what a ResultFile would, or a folder that is filled as `path`.tmp and then renamed: for work that
// makes them at its end. What they try leaves nothing but the folders above.
void require_file_place(const std::filesystem::path& path, const std::string& remedy);
void require_folder_place(const std::filesystem::path& path, const std::string& remedy);

}  // namespace pipeline::train
