#include "core/train/results/result_file.hpp"

#include <cerrno>
#include <fstream>

#include <fmt/format.h>

#include "core/base/files.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

ResultFile::ResultFile(fs::path path, std::string remedy)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp"), remedy_(std::move(remedy)) {
  on_disk(remedy_, [&] {
    if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  });
  std::error_code ignored;
  if (fs::is_directory(path_, ignored)) throw write_error(path_, EISDIR, remedy_);
  if (fs::exists(path_, ignored) &&
      !fs::is_regular_file(path_, ignored))  // a device, such as /dev/null, would be replaced
    throw Error(PL_ERROR_CONFIG,
                fmt::format("{}: cannot be written: is no plain file: {}", path_.string(), remedy_));
  if (!std::ofstream(temporary_, std::ios::trunc)) throw write_error(path_, errno, remedy_);
}

void require_file_place(const fs::path& path, const std::string& remedy) {
  const ResultFile tried(path, remedy);
}

void require_folder_place(const fs::path& path, const std::string& remedy) {
  on_disk(remedy, [&] {
    const fs::path tried = path.string() + ".tmp";
    fs::create_directories(tried);
    fs::remove_all(tried);
  });
}

ResultFile::~ResultFile() {
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void ResultFile::write(std::string_view text) { write_atomically(path_, text, remedy_); }

}  // namespace pipeline::train
