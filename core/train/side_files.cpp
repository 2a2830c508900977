#include "core/train/side_files.hpp"

#include <cerrno>
#include <fstream>

#include "core/train/write_error.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

fs::path side_files_of(const fs::path& output) { return output.parent_path() / (output.stem().string() + "-files"); }

void write_side_file(const fs::path& folder, std::string_view name, std::span<const std::byte> bytes) {
  on_disk({}, [&] { fs::create_directories(folder); });
  std::ofstream out(folder / name, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw write_error(folder / name, errno);
}

}  // namespace pipeline::train
