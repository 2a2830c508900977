#include "core/train/result_file.hpp"

#include <cerrno>

#include "core/train/write_error.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

ResultFile::ResultFile(fs::path path, std::string remedy)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp"), remedy_(std::move(remedy)) {
  on_disk(remedy_, [&] {
    if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  });
  std::error_code ignored;
  if (fs::is_directory(path_, ignored)) throw write_error(path_, EISDIR, remedy_);
  out_.open(temporary_, std::ios::trunc);
  if (!out_) throw write_error(path_, errno, remedy_);
}

ResultFile::~ResultFile() {
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void ResultFile::write(const std::string& text) {
  out_ << text;
  out_.close();
  if (!out_) throw write_error(path_, errno, remedy_);
  on_disk(remedy_, [&] { fs::rename(temporary_, path_); });
}

}  // namespace pipeline::train
