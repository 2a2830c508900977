#include "plugins/data/sources/picture_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "plugins/data/sources/source_files.hpp"

namespace pipeline::sources {
namespace {

namespace fs = std::filesystem;

bool has_ending(std::string_view name, const auto& endings) {
  const std::string small = in_small_letters(name);
  return std::ranges::any_of(endings, [&](std::string_view ending) { return small.ends_with(ending); });
}

constexpr std::string_view kPictures[] = {".jpg", ".jpeg", ".png", ".webp", ".gif"};
constexpr std::string_view kTexts[] = {".txt", ".caption", ".json"};

}  // namespace

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return small;
}

bool is_picture(std::string_view name) { return has_ending(name, kPictures); }

std::vector<std::string> pictures_with_texts(const std::string& folder) {
  std::set<std::string> stems;  // of pictures
  std::vector<std::string> paths, others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with('.')) continue;
    if (is_picture(name)) stems.insert(entry.path().stem());
    (is_picture(name) ? paths : others).push_back(entry.path());
  }
  const size_t pictures = paths.size();
  for (const std::string& path : others) {
    if (has_ending(path, kTexts) && stems.contains(fs::path(path).stem()))
      paths.push_back(path);
    else if (format_named(path))
      return {};
  }
  if (paths.size() == pictures) return {};
  std::ranges::sort(paths);
  return paths;
}

}  // namespace pipeline::sources
