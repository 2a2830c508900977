#include "plugins/tasks/protein/clusters/contained.hpp"

#include <map>
#include <string_view>
#include <unordered_map>

namespace pipeline::protein {

namespace {

std::string_view text_of(const Letters& letters) {
  return {reinterpret_cast<const char*>(letters.data()), letters.size()};
}

}  // namespace

std::vector<std::optional<uint32_t>> find_containing(const std::vector<Letters>& sequences,
                                                     const std::vector<bool>& is_short) {
  // Looked up by their text, one length after the other: the short lengths are few, the sequences may be
  // many.
  std::map<size_t, std::unordered_multimap<std::string_view, uint32_t>> by_length;
  for (uint32_t i = 0; i < sequences.size(); ++i) {
    if (is_short[i] && !sequences[i].empty())
      by_length[sequences[i].size()].emplace(text_of(sequences[i]), i);
  }
  std::vector<std::optional<uint32_t>> containing(sequences.size());
  for (auto& [length, wanted] : by_length) {
    for (uint32_t i = 0; i < sequences.size() && !wanted.empty(); ++i) {
      const std::string_view text = text_of(sequences[i]);
      for (size_t at = 0; text.size() > length && at + length <= text.size(); ++at) {
        const auto [first, last] = wanted.equal_range(text.substr(at, length));
        for (auto found = first; found != last; ++found) containing[found->second] = i;
        wanted.erase(first, last);
      }
    }
  }
  return containing;
}

}  // namespace pipeline::protein
