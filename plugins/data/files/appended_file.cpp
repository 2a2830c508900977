#include "plugins/data/files/appended_file.hpp"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "plugins/data/files/error.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::files {
namespace {

constexpr const char* kWriteRemedy = "check the free space and the permissions of the cache folder";

std::string part_of(const std::string& path) { return path + ".part"; }

void sync_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // not every file system can; the rename itself has succeeded
  ::close(fd);
}

}  // namespace

AppendedFile::AppendedFile(const std::string& path) : path_(path) {
  fd_ = open_regular(part_of(path_), O_RDWR | O_CREAT | O_TRUNC, "remove it");
  if (fd_ < 0) throw system_error(part_of(path_), kWriteRemedy);
  is_part_ = true;
}

AppendedFile::AppendedFile(const std::string& path, uint64_t end) : path_(path), end_(end) {
  fd_ = open_regular(path_, O_RDWR);
  if (fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(end_)) == 0) return;
  const DataError error = system_error(path_, kWriteRemedy);
  close();
  throw error;
}

AppendedFile::~AppendedFile() { close(); }

void AppendedFile::close() {
  if (fd_ >= 0) ::close(fd_);
  if (is_part_) ::unlink(part_of(path_).c_str());
  fd_ = -1;
  is_part_ = false;
}

void AppendedFile::replace() {
  sync();
  if (::rename(part_of(path_).c_str(), path_.c_str()) != 0) throw system_error(path_, kWriteRemedy);
  is_part_ = false;
  sync_folder(path_);
}

void AppendedFile::append(std::string_view bytes) {
  uint64_t at = end_;
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t put = ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const DataError error = system_error(path_, kWriteRemedy);
      // If truncating fails as well, the next writer cuts off what was written.
      [[maybe_unused]] const int ignored = ::ftruncate(fd_, static_cast<off_t>(end_));
      throw error;
    }
    rest.remove_prefix(static_cast<size_t>(put));
    at += static_cast<uint64_t>(put);
  }
  end_ = at;
}

void AppendedFile::sync() {
  if (::fsync(fd_) != 0) throw system_error(path_, kWriteRemedy);
}

}  // namespace pipeline::files
