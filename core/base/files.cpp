#include "core/base/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "core/base/descriptor.hpp"
#include "core/base/file_lock.hpp"
#include "core/base/program.hpp"

namespace pipeline {
namespace {

namespace fs = std::filesystem;

// Whether another path would help against the error (an errno); any other error is the trouble of a disk.
bool is_of_the_path(int error) {
  for (const int one : {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, ENAMETOOLONG, ELOOP, EINVAL})
    if (error == one) return true;
  return false;
}

const char* kind_of(fs::file_type type) {
  using Type = fs::file_type;
  return type == Type::directory ? "folder"
         : type == Type::fifo    ? "FIFO"
         : type == Type::socket  ? "socket"
                                 : "device";
}

// An empty file that nobody else is writing: processes that write the same file take turns, or their parts
// would be mixed. Nothing: errno says why.
Descriptor open_alone(const fs::path& path) {
  for (int tries = 0; tries < 1000; ++tries) {
    Descriptor file(above_standard(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)));
    if (!file) return file;
    if (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (is_still(path, file.fd()) && ::ftruncate(file.fd(), 0) == 0) return file;
  }
  errno = EBUSY;
  return Descriptor();
}

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code not_there;
  return fs::exists(path, not_there);
}

std::ifstream open_file(const fs::path& path) {
  const auto fail = [&](const std::string& problem) {
    return Error(PL_ERROR_CONFIG, fmt::format("{}: {}", path.string(), problem));
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::status_known(status) || !fs::exists(status)) throw fail("cannot be read: " + error.message());
  if (!fs::is_regular_file(status))
    throw fail(fmt::format("is a {}, must be a file", kind_of(status.type())));
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw fail(std::string("cannot be read: ") + std::strerror(errno));
  return stream;
}

std::string read_file(const fs::path& path) {
  std::ifstream stream = open_file(path);
  return rest_of(stream);
}

std::string rest_of(std::istream& stream) {
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

Error write_error(const fs::path& path, int error, std::string_view remedy) {
  const bool full = error == ENOSPC || error == EDQUOT;
  std::string text = fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error));
  if (full) text += ": free some space there";
  if (!remedy.empty()) text += fmt::format("{} {}", full ? ", or" : ":", remedy);
  const bool is_mistake = !remedy.empty() && is_of_the_path(error);
  return Error(full ? PL_ERROR_NO_SPACE : is_mistake ? PL_ERROR_CONFIG : PL_ERROR_FAILED, text);
}

void write_atomically(const fs::path& path, std::string_view content, std::string_view remedy) {
  const fs::path temporary = path.string() + ".tmp";
  Descriptor file = open_alone(temporary);
  std::span<const std::byte> left = std::as_bytes(std::span(content));
  const int problem = file && write_all(file.fd(), left) && ::fsync(file.fd()) == 0 ? 0 : errno;
  if (problem == 0) return on_disk(remedy, [&] { fs::rename(temporary, path); });
  std::error_code ignored;
  if (file) fs::remove(temporary, ignored);  // else it is somebody else's
  throw write_error(path, problem, remedy);
}

}  // namespace pipeline
