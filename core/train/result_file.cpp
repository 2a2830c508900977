#include "core/train/result_file.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "core/plugins/error.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

ResultFile::ResultFile(fs::path path) : path_(std::move(path)), temporary_(path_.string() + ".tmp") {
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  out_.open(temporary_, std::ios::trunc);
  if (!out_) fail();
}

ResultFile::~ResultFile() {
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void ResultFile::write(const std::string& text) {
  out_ << text;
  out_.close();
  if (!out_) fail();
  fs::rename(temporary_, path_);
}

void ResultFile::fail() const {
  const int error = errno;
  throw Error(error == ENOSPC || error == EDQUOT ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED,
              fmt::format("{}: cannot be written: {}: choose another --output", path_.string(), std::strerror(error)));
}

}  // namespace pipeline::train
