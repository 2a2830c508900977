#include "plugins/tasks/protein/data/library_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace pipeline::protein {
namespace {

std::string printable(std::string text) {
  for (char& c : text) c = c >= 0 && c < ' ' ? '?' : c;
  return text;
}

std::string table_of(const std::vector<FileNote>& files, size_t most, const std::string& all_path) {
  constexpr size_t kWidest = 60;  // longer paths push their text to the right
  const size_t shown = std::min(most, files.size());
  size_t width = 0;
  for (size_t i = 0; i < shown; ++i) {
    if (files[i].path.size() <= kWidest) width = std::max(width, files[i].path.size());
  }
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    const size_t blanks = files[i].path.size() < width ? width - files[i].path.size() : 0;
    text += "  " + printable(files[i].path) + std::string(blanks + 2, ' ') + files[i].text + "\n";
  }
  if (shown < files.size()) text += "  and " + std::to_string(files.size() - shown) + " more: see " + all_path + "\n";
  return text;
}

}  // namespace

std::string library_report(const std::vector<FileNote>& unusable, const std::vector<FileNote>& odd, size_t most,
                           const std::string& all_path) {
  std::string text = table_of(unusable, most, all_path);
  if (odd.empty()) return text;
  return text + std::to_string(odd.size()) + (odd.size() == 1 ? " file is" : " files are") + " used but odd:\n" +
         table_of(odd, most, all_path);
}

bool write_report(const std::string& text, const std::string& path) {
  {
    std::ifstream present(path, std::ios::binary);
    if (present ? std::string{std::istreambuf_iterator<char>(present), {}} == text : text.empty()) return true;
  }
  if (text.empty()) return std::remove(path.c_str()) == 0;
  const std::string part = path + "." + std::to_string(::getpid()) + ".part";  // other processes may write the same
  std::ofstream stream(part, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (stream && std::rename(part.c_str(), path.c_str()) == 0) return true;
  std::remove(part.c_str());
  return false;
}

}  // namespace pipeline::protein
