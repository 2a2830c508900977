#include "core/train/side_files.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "core/plugins/error.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

fs::path side_files_of(const fs::path& output) { return output.parent_path() / (output.stem().string() + "-files"); }

void write_side_file(const fs::path& folder, std::string_view name, std::span<const std::byte> bytes) {
  fs::create_directories(folder);
  std::ofstream out(folder / name, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) {
    const int error = errno;
    throw Error(error == ENOSPC || error == EDQUOT ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED,
                fmt::format("{}: cannot be written: {}", (folder / name).string(), std::strerror(error)));
  }
}

}  // namespace pipeline::train
