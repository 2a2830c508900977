#include "core/base/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include "core/base/descriptor.hpp"

namespace pipeline {
namespace {

namespace fs = std::filesystem;

// What another path would be good for; anything else is the trouble of a disk.
bool is_of_the_path(int error) {
  for (const int one : {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, ENAMETOOLONG, ELOOP, EINVAL})
    if (error == one) return true;
  return false;
}

}  // namespace

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
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  std::span<const std::byte> left = std::as_bytes(std::span(content));
  int problem = file && write_all(file.fd(), left) && ::fsync(file.fd()) == 0 ? 0 : errno;
  if (!file.close() && problem == 0) problem = errno;
  if (problem == 0) return on_disk(remedy, [&] { fs::rename(temporary, path); });
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw write_error(path, problem, remedy);
}

}  // namespace pipeline
