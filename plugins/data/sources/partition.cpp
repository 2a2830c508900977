#include "plugins/data/sources/partition.hpp"

#include <charconv>

namespace pipeline::sources {
namespace {

// "%3D" is a character that a folder's name may not have.
std::string decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      result += static_cast<char>(value);
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> partition_of(const std::filesystem::path& path) {
  std::vector<std::pair<std::string, std::string>> columns;
  for (std::filesystem::path folder = path.parent_path(); is_partition(folder.filename().string());
       folder = folder.parent_path()) {
    const std::string name = folder.filename();
    const size_t sign = name.find('=', 1);
    if (name.substr(sign + 1) != "__HIVE_DEFAULT_PARTITION__")  // Hive's null
      columns.emplace(columns.begin(), decoded(name.substr(0, sign)), decoded(name.substr(sign + 1)));
  }
  return columns;
}

}  // namespace pipeline::sources
