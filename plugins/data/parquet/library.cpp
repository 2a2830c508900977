#include "plugins/data/parquet/library.hpp"

#include <filesystem>
#include <string_view>

#include <dlfcn.h>

#include "plugins/data/files/error.hpp"

namespace pipeline::parquet {
namespace {

namespace fs = std::filesystem;
using files::DataError;

constexpr const char* kLibrary = "readers/parquet_reader.so";

// Beside the plugins: this code is in one of them, or in a program of the same build.
fs::path find_library() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&find_library), &here) == 0) return {};
  std::error_code ignored;
  for (fs::path folder = fs::weakly_canonical(here.dli_fname, ignored).parent_path();;
       folder = folder.parent_path()) {
    for (const fs::path& path : {folder / kLibrary, folder / "lib/pipeline" / kLibrary})
      if (fs::exists(path, ignored)) return path;
    if (folder == folder.root_path()) return {};
  }
}

}  // namespace

void* library_symbol(const std::string& path, const char* symbol) {
  constexpr const char* kRemedy =
      "Parquet needs Arrow's library, which the first command that names a .parquet file fetches "
      "(scripts/pipeline; by hand: scripts/setup/build release parquet_reader)";
  static const fs::path library = find_library();
  if (library.empty()) throw DataError(path + ": " + kRemedy);
  static void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const problem = ::dlerror();
    throw DataError(path + ": " + kRemedy + ": " + (problem == nullptr ? "it cannot be loaded" : problem));
  }
  void* const found = ::dlsym(handle, symbol);
  if (found == nullptr) throw DataError(library.string() + ": is of another version: build it again");
  return found;
}

std::string one_line(std::string_view problem) {
  std::string text;
  for (const char c : problem.substr(0, 400)) text += c == '\n' ? ' ' : c;
  return text;
}

}  // namespace pipeline::parquet
