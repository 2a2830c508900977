#include "core/observe/append_file.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file_lock.hpp"
#include "core/base/standard_streams.hpp"

namespace pipeline::observe {

AppendFile::AppendFile(const std::filesystem::path& file)
    : path_(file),
      descriptor_(above_standard(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644))) {
  if (descriptor_ < 0)
    throw std::system_error(errno, std::generic_category(), "cannot open " + file.string());
}

AppendFile::~AppendFile() {
  flush();
  ::close(descriptor_);
}

bool AppendFile::is_still_there() const { return is_still(path_, descriptor_); }

bool AppendFile::append(std::string_view record) {
  buffer_ += record;
  ++pending_;
  return flush();
}

bool AppendFile::flush() {
  if (buffer_.empty()) return true;
  struct stat before {};
  if (::fstat(descriptor_, &before) != 0) return error_ = errno, false;
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t wrote = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      error_ = wrote < 0 ? errno : ENOSPC;
      // Nothing can be done if this fails too; the next continued run drops the broken record.
      [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, before.st_size);
      return false;
    }
    done += static_cast<size_t>(wrote);
  }
  buffer_.clear();
  pending_ = 0;
  error_ = 0;
  return true;
}

}  // namespace pipeline::observe
