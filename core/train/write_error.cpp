#include "core/train/write_error.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace pipeline::train {

Error write_error(const std::filesystem::path& path, int error, std::string_view remedy) {
  const bool full = error == ENOSPC || error == EDQUOT;
  std::string text = fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error));
  if (full) text += ": free some space there";
  if (!remedy.empty()) text += fmt::format("{} {}", full ? ", or" : ":", remedy);
  return Error(full ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED, text);
}

}  // namespace pipeline::train
