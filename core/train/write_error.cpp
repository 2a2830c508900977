#include "core/train/write_error.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace pipeline::train {

namespace {

// What another path would be good for; anything else is the trouble of a disk.
bool is_of_the_path(int error) {
  for (const int one : {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, EROFS, ENAMETOOLONG, ELOOP, EINVAL})
    if (error == one) return true;
  return false;
}

}  // namespace

Error write_error(const std::filesystem::path& path, int error, std::string_view remedy) {
  const bool full = error == ENOSPC || error == EDQUOT;
  std::string text = fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error));
  if (full) text += ": free some space there";
  if (!remedy.empty()) text += fmt::format("{} {}", full ? ", or" : ":", remedy);
  return Error(full ? PL_ERROR_NO_SPACE : !remedy.empty() && is_of_the_path(error) ? PL_ERROR_CONFIG : PL_ERROR_FAILED, text);
}

}  // namespace pipeline::train
