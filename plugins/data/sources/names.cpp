#include "plugins/data/sources/names.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>

#include "plugins/data/files/error.hpp"
#include "plugins/data/sources/source_files.hpp"

namespace pipeline::sources {
namespace {

namespace fs = std::filesystem;

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

constexpr size_t kMost = 1'000'000;

std::optional<uint64_t> number_in(std::string_view digits) {
  uint64_t number = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// The parts of "a,b", where commas in braces within are none; empty: there is one alone.
std::vector<std::string> between_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts.size() > 1 ? parts : std::vector<std::string>();
}

// The brace that ends what begins at `open`; npos: none does.
size_t end_of(const std::string& name, size_t open) {
  int depth = 0;
  for (size_t i = open; i < name.size(); ++i) {
    depth += name[i] == '{' ? 1 : name[i] == '}' ? -1 : 0;
    if (depth == 0) return i;
  }
  return std::string::npos;
}

// The names that the text between braces stands for, "00..12" or "a,b"; empty: neither.
std::vector<std::string> choices_of(const std::string& text) {
  std::vector<std::string> choices;
  if (const size_t dots = text.find(".."); dots != std::string::npos) {
    const auto first = number_in(text.substr(0, dots)), last = number_in(text.substr(dots + 2));
    if (!first || !last) return between_commas(text);
    const uint64_t low = std::min(*first, *last), high = std::max(*first, *last);
    if (high - low >= kMost)
      throw files::DataError("{" + text + "}: are more than " + std::to_string(kMost) + " names");
    // Numbers are as wide as the wider end is written, where either begins with a zero.
    const size_t width =
        text.starts_with('0') || text[dots + 2] == '0' ? std::max(dots, text.size() - dots - 2) : 0;
    for (uint64_t i = low; i <= high; ++i) {
      const std::string digits = std::to_string(i);
      choices.push_back(std::string(width - std::min(width, digits.size()), '0') + digits);
    }
    if (*last < *first) std::ranges::reverse(choices);
    return choices;
  }
  return between_commas(text);
}

bool has_ending(std::string_view name, const auto& endings) {
  const std::string small = files::in_small_letters(name);
  return std::ranges::any_of(endings, [&](std::string_view ending) { return small.ends_with(ending); });
}

constexpr std::string_view kPictures[] = {".jpg", ".jpeg", ".png", ".webp", ".gif"};
constexpr std::string_view kTexts[] = {".txt", ".caption", ".json"};

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

std::vector<std::string> expand_braces(const std::string& name) {
  for (size_t open = name.find('{'); open != std::string::npos; open = name.find('{', open + 1)) {
    const size_t close = end_of(name, open);
    if (close == std::string::npos) continue;
    std::vector<std::string> names;
    for (const std::string& choice : choices_of(name.substr(open + 1, close - open - 1)))
      for (std::string& one : expand_braces(name.substr(0, open) + choice + name.substr(close + 1))) {
        if (names.size() == kMost)
          throw files::DataError(name + ": stands for more than " + std::to_string(kMost) + " files");
        names.push_back(std::move(one));
      }
    if (!names.empty()) return names;
  }
  return {name};
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
