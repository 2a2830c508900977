#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::protein {

// What weights have learnt from, as content keys of chains (content_key.hpp). It goes with them from run to run, so that no evaluation
// takes what they know for something new.
struct Learnt {
  std::vector<uint64_t> training, validation;  // ascending, each once. validation: what the best checkpoint was chosen by

  void add(const Learnt& other);
  bool operator==(const Learnt&) const = default;
};

// In place: ascending, each once.
void make_set(std::vector<uint64_t>& keys);
// Whether one of `keys` is in the set.
bool any_of(std::span<const uint64_t> keys, const std::vector<uint64_t>& set);

// 16 hexadecimal digits a key. keys_from() gives false for a text that is no such thing.
std::string to_text(const std::vector<uint64_t>& set);
bool keys_from(std::string_view text, std::vector<uint64_t>& set);

}  // namespace pipeline::protein
