#include "plugins/data/files/unique_names.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "plugins/data/files/hash128.hpp"

namespace pipeline::files {
namespace {

constexpr size_t kLongestName = 200;  // of the 255 bytes that a file's name may have; endings follow

bool is_plain(char c) {
  constexpr std::string_view kSpecial = "/\\|*?<>\"'`$&;!";
  return static_cast<unsigned char>(c) >= ' ' && c != '\x7f' && c != kNumberMark &&
         kSpecial.find(c) == kSpecial.npos;
}

// The name with percent-escapes, as in an address: different for every name.
std::string percent_escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    text += is_plain(c) && c != '%' ? std::string(1, c) : std::string(code);
  }
  return text;
}

// A name that is too long keeps its beginning.
std::string shortened(std::string text, const std::string& name) {
  if (text.size() <= kLongestName) return text;
  return std::string(utf8_prefix(text, kLongestName - 17)) + "-" + files::hash128(name).hex().substr(0, 16);
}

}  // namespace

std::vector<std::string> tell_apart(const std::vector<std::string>& short_names,
                                    const std::vector<std::string>& long_names) {
  std::vector<std::string> names = short_names;
  for (bool changed = true; changed;) {  // a long name can be another's short one, which then gets its own
    std::unordered_map<std::string, size_t> uses;
    for (const std::string& name : names) ++uses[name];
    changed = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (uses[names[i]] < 2 || names[i] == long_names[i]) continue;
      names[i] = long_names[i];
      changed = true;
    }
  }
  std::unordered_map<std::string, size_t> uses;
  for (const std::string& name : names) ++uses[name];
  std::unordered_set<std::string> taken;
  for (const auto& [name, times] : uses) taken.insert(name);
  std::unordered_map<std::string, size_t> seen;
  for (std::string& name : names) {
    if (uses[name] < 2) continue;
    const std::string same = name;
    size_t& number = seen[same];
    if (++number == 1) continue;  // the first of them keeps it
    while (!taken.insert(name = same + "-" + std::to_string(number)).second) ++number;
  }
  return names;
}

std::vector<std::string> file_names(const std::vector<std::string>& names) {
  std::vector<std::string> plain, unmistakable;
  for (const std::string& name : names) {
    std::string text = name;
    std::ranges::replace_if(
        text, [](char c) { return !is_plain(c); }, '-');
    if (text.starts_with('.') || text.starts_with('-')) text.front() = '_';  // hidden, or taken for an option
    plain.push_back(shortened(std::move(text), name));
    unmistakable.push_back(shortened(percent_escaped(name), name));
  }
  return tell_apart(plain, unmistakable);
}

}  // namespace pipeline::files
