#include "tests/structure/rooms.hpp"

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<fs::path> sources_in(const fs::path& folder) {
  static const std::set<std::string> kEndings{".h", ".hpp", ".cpp"};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (kEndings.contains(entry.path().extension().string())) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

class Room {
 public:
  Room(const fs::path& root, const fs::path& folder)
      : root_(root),
        folder_(folder),
        name_(folder.filename().string()),
        is_task_(folder.parent_path().filename() == "tasks"),
        space_((is_task_ ? "pipeline::tasks::" : "pipeline::") + name_) {}

  std::vector<std::string> problems() {
    const std::vector<fs::path> sources = sources_in(folder_);
    for (const fs::path& file : sources) {
      if (is_task_ && file.parent_path() != folder_)
        say(file, 1, "a task is one folder: move the file to " + shown(folder_));
      if (file.extension() == ".hpp") check_header(file);
    }
    if (!sources.empty()) check_library();
    return std::move(problems_);
  }

 private:
  std::string shown(const fs::path& file) const { return file.lexically_relative(root_).string(); }
  void say(const fs::path& file, size_t line, const std::string& what) {
    problems_.push_back(shown(file) + ":" + std::to_string(line) + ": " + what);
  }

  bool is_within(const std::string& space, const fs::path& file) const {
    if (space == space_ || space.starts_with(space_ + "::")) return true;
    return file.parent_path() != folder_ && space == "pipeline::" + file.parent_path().filename().string();
  }

  // What a header opens must be its room's; what it merely declares of other rooms may be beside it. Texts of
  // functions that are included in the midst of a namespace (.inc.hpp) open none.
  void check_header(const fs::path& file) {
    static const std::regex opens(R"(namespace (pipeline(?:::\w+)*) \{.*)");
    if (file.string().ends_with(".inc.hpp")) return;
    const std::vector<std::string> lines = lines_of(file);
    size_t wrong = 0;
    std::string found;
    for (size_t i = 0; i < lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_match(lines[i], match, opens)) continue;
      if (is_within(match[1], file)) return;
      if (wrong == 0) wrong = i + 1, found = match[1];
    }
    say(file, std::max<size_t>(wrong, 1),
        (found.empty() ? "opens no namespace" : "opens " + found) + ", and must open " + space_ +
            ", for its folder's name");
  }

  void check_library() {
    static const std::regex adds(R"(\s*(?:add_library|pipeline_plugin)\((\w+)\b.*)");
    const fs::path file = folder_ / "CMakeLists.txt";
    if (!fs::exists(file))
      return say(file, 1, "there is no such file, and must be one that adds a library " + name_);
    size_t first = 0;
    std::string found;
    const std::vector<std::string> lines = lines_of(file);
    for (size_t i = 0; i < lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_match(lines[i], match, adds)) continue;
      if (match[1] == name_) return;
      if (first == 0) first = i + 1, found = match[1];
    }
    say(file, std::max<size_t>(first, 1),
        (found.empty() ? "adds no library" : "adds the library " + found) + ", and must add " + name_ +
            ", for its folder's name");
  }

  fs::path root_, folder_;
  std::string name_;
  bool is_task_;
  std::string space_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> problems_with_rooms(const fs::path& root) {
  std::vector<fs::path> folders;
  for (const char* const floor : {"data", "models", "scores", "tasks"})
    if (fs::exists(root / "plugins" / floor))
      for (const auto& entry : fs::directory_iterator(root / "plugins" / floor))
        if (entry.is_directory()) folders.push_back(entry.path());
  std::ranges::sort(folders);
  std::vector<std::string> problems;
  for (const fs::path& folder : folders)
    for (std::string& problem : Room(root, folder).problems()) problems.push_back(std::move(problem));
  return problems;
}

}  // namespace pipeline::tests
