#include "plugins/tasks/protein/task/learnt.hpp"

#include <algorithm>
#include <charconv>

namespace pipeline::protein {
namespace {

constexpr size_t kHexDigits = 16;

}  // namespace

void make_set(std::vector<uint64_t>& keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

void Learnt::add(const Learnt& other) {
  training.insert(training.end(), other.training.begin(), other.training.end());
  validation.insert(validation.end(), other.validation.begin(), other.validation.end());
  make_set(training);
  make_set(validation);
}

bool any_of(std::span<const uint64_t> keys, const std::vector<uint64_t>& set) {
  return std::any_of(keys.begin(), keys.end(), [&](uint64_t key) { return std::binary_search(set.begin(), set.end(), key); });
}

std::string to_text(const std::vector<uint64_t>& set) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const uint64_t key : set)
    for (size_t digit = kHexDigits; digit-- > 0;) text += kHex[key >> (4 * digit) & 15];
  return text;
}

bool keys_from(std::string_view text, std::vector<uint64_t>& set) {
  set.clear();
  if (text.size() % kHexDigits != 0) return false;
  for (; !text.empty(); text.remove_prefix(kHexDigits)) {
    uint64_t key = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + kHexDigits, key, 16);
    if (error != std::errc() || end != text.data() + kHexDigits) return false;
    set.push_back(key);
  }
  make_set(set);
  return true;
}

}  // namespace pipeline::protein
