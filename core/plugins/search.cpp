#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/plugins/registry.hpp"

namespace fs = std::filesystem;

namespace pipeline::plugins {
namespace {

constexpr const char* kVariable = "PIPELINE_PLUGIN_PATH";

void add_named(std::vector<SearchFolder>& folders, const fs::path& path, const std::string& origin) {
  std::error_code failure;
  if (!fs::exists(path, failure))
    throw Error(PL_ERROR_CONFIG, fmt::format("{} = {}: there is no such folder", origin, path.string()));
  if (!fs::is_directory(path, failure))
    throw Error(PL_ERROR_CONFIG,
                fmt::format("{} = {}: must be a folder that holds plugins (NAME.so)", origin, path.string()));
  folders.push_back({path, origin});
}

}  // namespace

std::vector<SearchFolder> search_folders(const std::vector<SearchFolder>& given) {
  std::vector<SearchFolder> folders;
  for (const SearchFolder& folder : given) add_named(folders, folder.path, folder.origin);

  const char* variable = std::getenv(kVariable);
  std::string_view rest = variable ? variable : "";
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    if (const std::string_view entry = rest.substr(0, colon); !entry.empty())
      add_named(folders, entry, kVariable);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  }

  // The build tree and an installed prefix have the same layout.
  const fs::path program = fs::read_symlink("/proc/self/exe");
  folders.push_back(
      {program.parent_path().parent_path() / "lib" / "pipeline" / "plugins", "beside the program"});
  return folders;
}

}  // namespace pipeline::plugins
