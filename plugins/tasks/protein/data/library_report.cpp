#include "plugins/tasks/protein/data/library_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "plugins/tasks/protein/data/utf8_name.hpp"

namespace pipeline::protein {
namespace {

std::string table_of(const std::vector<FileNote>& files, size_t most, const std::string& all_path) {
  constexpr size_t kWidest = 60;  // longer paths push their text to the right
  const size_t shown = std::min(most, files.size());
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) {
    const size_t size = printable_path(files[i].path).size();
    if (size <= kWidest) width = std::max(width, size);
  }
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    const std::string path = printable_path(files[i].path);
    text += "  " + path + std::string(path.size() < width ? width - path.size() + 2 : 2, ' ') +
            files[i].text + "\n";
  }
  if (shown < files.size())
    text += "  and " + std::to_string(files.size() - shown) + " more: see " + all_path + "\n";
  return text;
}

}  // namespace

std::string library_report(const std::vector<FileNote>& unusable, const std::vector<FileNote>& odd,
                           size_t most, const std::string& all_path) {
  std::string text = table_of(unusable, most, all_path);
  if (odd.empty()) return text;
  return text + std::to_string(odd.size()) + (odd.size() == 1 ? " file is" : " files are") +
         " used but odd:\n" + table_of(odd, most, all_path);
}

std::string printable_path(const std::string& path) {
  std::string text = utf8_name(path);
  for (char& c : text) c = c >= 0 && c < ' ' ? '?' : c;
  return text;
}

std::string copies_report(const std::vector<FileNote>& copies) {
  if (copies.empty()) return "";
  return std::to_string(copies.size()) +
         (copies.size() == 1 ? " file is a copy of another" : " files are copies of others") + ":\n" +
         table_of(copies, std::numeric_limits<size_t>::max(), "");
}

bool write_report(const std::string& text, const std::string& path) {
  if (text.empty()) return std::remove(path.c_str()) == 0 || errno == ENOENT;
  if (std::error_code ignored; std::filesystem::is_regular_file(path, ignored)) {
    std::ifstream present(path, std::ios::binary);
    if (std::string(std::istreambuf_iterator<char>(present), {}) == text) return true;
  }
  const std::string part = path + "." + std::to_string(::getpid()) + ".part";  // others may write the same
  std::ofstream stream(part, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (stream && std::rename(part.c_str(), path.c_str()) == 0) return true;
  std::remove(part.c_str());
  return false;
}

}  // namespace pipeline::protein
