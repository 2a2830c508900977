#include "core/checkpoint/file_system.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/abi/pipeline.h"
#include "core/base/descriptor.hpp"
#include "core/base/error.hpp"
#include "core/base/program.hpp"

namespace pipeline::checkpoint {
namespace {

[[noreturn]] void fail(const std::string& what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  throw Error(full ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED, what + ": " + std::strerror(code));
}

// A file, or a folder to be synced.
class RealFile : public OutputFile {
 public:
  RealFile(std::string path, int flags)
      : path_(std::move(path)), file_(above_standard(::open(path_.c_str(), flags | O_CLOEXEC, 0666))) {
    if (!file_) fail(path_ + ": cannot be opened", errno);
  }

  void write(std::span<const std::byte> bytes) override {
    if (!write_all(file_.fd(), bytes)) fail(path_ + ": cannot be written", errno);
  }
  void sync() override {
    if (::fsync(file_.fd()) != 0) fail(path_ + ": cannot be synced to disk", errno);
  }
  void close() override {
    if (!file_.close()) fail(path_ + ": cannot be closed", errno);
  }

 private:
  std::string path_;
  Descriptor file_;
};

class RealFileSystem : public FileSystem {
 public:
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return std::make_unique<RealFile>(path, O_WRONLY | O_CREAT | O_EXCL);
  }
  void make_folder(const std::string& path) override {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path store = fs::path(path).parent_path();
    fs::create_directory(store, error);  // not what is around it: a run's folder that somebody has moved
    if (!error || error == std::errc::file_exists) fs::create_directory(path, error);  // a file: says so
    if (error) fail(path + ": cannot be made", error.value());
  }
  void sync_folder(const std::string& path) override { RealFile(path, O_RDONLY | O_DIRECTORY).sync(); }
  bool link(const std::string& from, const std::string& to) override {
    return ::link(from.c_str(), to.c_str()) == 0;
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(from + ": cannot be renamed to " + to, errno);
  }
  void remove(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) fail(path + ": cannot be removed", error.value());
  }
  uint64_t free_bytes(const std::string& folder) override {
    struct statvfs status;
    // A file system that cannot say is no reason not to try.
    if (::statvfs(folder.c_str(), &status) != 0) return std::numeric_limits<uint64_t>::max();
    return uint64_t{status.f_bavail} * status.f_frsize;
  }
};

}  // namespace

FileSystem& FileSystem::real() {
  static RealFileSystem instance;
  return instance;
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) fail(path + ": cannot be listed", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf())) || file.bad())
    fail(path + ": cannot be read", errno != 0 ? errno : EIO);
  return text.str();
}

}  // namespace pipeline::checkpoint
