#include "core/config/suggest.hpp"

#include <algorithm>

namespace pipeline::config {
namespace {

// Names longer than this are compared by equality alone, so that a huge key costs nothing.
constexpr size_t kLongest = 128;

char folded(char c) {
  if (c == '-') return '_';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  if (a.size() > kLongest || b.size() > kLongest) return a == b ? 0 : std::max(a.size(), b.size());
  // Three rows of the usual table: before_last[j] is the distance of a[0, i-2) to b[0, j).
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const char x = folded(a[i - 1]);
      const char y = folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (x == y ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y;
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string closest(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, (name.size() + 1) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    // One wrong letter makes another word of a very short name.
    if (distance > 0 && std::min(name.size(), candidate.size()) < 3) continue;
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string alternatives(std::span<const std::string> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::string near = closest(name, candidates);
  return near.empty() ? "there is " + alternatives(candidates) : "did you mean " + near + "?";
}

}  // namespace pipeline::config
