#include "tests/structure/includes.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace pipeline::tests {
namespace {

namespace fs = std::filesystem;
using Folders = std::set<std::string>;
using Table = std::map<std::string, Folders>;

const std::string kLibTorch = "LibTorch";

bool is_of_libtorch(const std::string& header) {
  static const std::regex theirs("(torch|ATen|c10|caffe2)/.*");
  return std::regex_match(header, theirs);
}

Table parse(const std::string& text) {
  Table table;
  Folders* row = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    if (const size_t colon = line.find(':'); colon != std::string::npos) {
      row = &table[line.substr(0, colon)];
      line.erase(0, colon + 1);
    }
    std::istringstream names(line);
    if (row) row->insert(std::istream_iterator<std::string>(names), {});
  }
  return table;
}

class Sources {
 public:
  explicit Sources(const fs::path& root) : root_(root) {
    for (const char* const area : {"core", "plugins", "backends"})
      for (const auto& entry : fs::recursive_directory_iterator(root / area))
        if (is_source(entry.path())) files_.push_back(entry.path().lexically_relative(root));
    std::ranges::sort(files_);
    for (const fs::path& file : files_) by_name_.emplace(file.filename().string(), file);
  }

  const std::vector<fs::path>& files() const { return files_; }

  // The files of ours that `header` may mean; none for a header of somebody else's.
  std::vector<fs::path> meant_by(const fs::path& header, const fs::path& includer) const {
    for (const fs::path& exact : {includer.parent_path() / header, header})
      if (fs::exists(root_ / exact)) return {exact.lexically_normal()};
    std::vector<fs::path> found;
    const auto [first, last] = by_name_.equal_range(header.filename().string());
    for (auto it = first; it != last; ++it)
      if (("/" + it->second.string()).ends_with("/" + header.string())) found.push_back(it->second);
    return found;
  }

 private:
  static bool is_source(const fs::path& path) {
    static const std::set<std::string> kEndings{".h", ".hpp", ".c", ".cpp"};
    return kEndings.contains(path.extension().string());
  }

  fs::path root_;
  std::vector<fs::path> files_;
  std::multimap<std::string, fs::path> by_name_;
};

class Check {
 public:
  Check(const fs::path& root, Table table) : root_(root), sources_(root), table_(std::move(table)) {}

  std::vector<std::string> run() {
    for (const fs::path& file : sources_.files()) read(file);
    for (const auto& [folder, used] : uses_)
      if (!table_.contains(folder)) problems_.push_back("table: there is no line for " + folder);
    for (const auto& [folder, allowed] : table_) compare(folder, allowed);
    for (const auto& [folder, allowed] : table_) follow(folder);
    return problems_;
  }

 private:
  void read(const fs::path& file) {
    static const std::regex directive(R"re(\s*#\s*include\s*(["<])([^">]+)[">].*)re");
    std::ifstream stream(root_ / file);
    std::smatch match;
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (std::regex_match(line, match, directive))
        take(file, match[2], match[1] == "\"", file.string() + ":" + std::to_string(number) + ": ");
    }
    uses_.try_emplace(file.parent_path().string());
  }

  void take(const fs::path& file, const std::string& header, bool ours, const std::string& where) {
    const std::string folder = file.parent_path().string();
    std::string target;
    if (is_of_libtorch(header)) {
      target = kLibTorch;
    } else {
      const std::vector<fs::path> meant = sources_.meant_by(header, file);
      if (meant.empty() && ours) problems_.push_back(where + "there is no file \"" + header + "\"");
      if (meant.size() > 1)
        problems_.push_back(where + "\"" + header + "\" may be " + meant[0].string() + " or " +
                            meant[1].string() + ": name it from the root");
      if (meant.size() != 1) return;
      target = meant.front().parent_path().string();
    }
    if (target == folder) return;
    uses_[folder].insert(target);
    if (const auto row = table_.find(folder); row != table_.end() && !row->second.contains(target))
      problems_.push_back(where + folder + " may not include " + target);
  }

  void compare(const std::string& folder, const Folders& allowed) {
    const auto used = uses_.find(folder);
    if (used == uses_.end()) return problems_.push_back("table: " + folder + " has no sources");
    for (const std::string& other : allowed)
      if (!used->second.contains(other))
        problems_.push_back("table: " + folder + " may include " + other + ", but does not: take it out");
  }

  // Goes to everything that `folder` may include; what is still on the way there closes a circle.
  void follow(const std::string& folder) {
    if (const auto open = std::ranges::find(way_, folder); open != way_.end()) {
      std::string circle;
      for (auto step = open; step != way_.end(); ++step) circle += *step + " -> ";
      return problems_.push_back("table: a circle: " + circle + folder);
    }
    const auto row = table_.find(folder);
    if (row == table_.end() || finished_.contains(folder)) return;
    way_.push_back(folder);
    for (const std::string& next : row->second) follow(next);
    way_.pop_back();
    finished_.insert(folder);
  }

  fs::path root_;
  Sources sources_;
  Table table_;
  Table uses_;
  std::vector<std::string> way_;
  Folders finished_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> problems_with_includes(const fs::path& root, const std::string& table) {
  return Check(root, parse(table)).run();
}

}  // namespace pipeline::tests
