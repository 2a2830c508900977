#include "plugins/tasks/summarization/data/blank.hpp"

#include <array>

namespace pipeline::summarization {
namespace {

constexpr std::array<std::string_view, 12> kBlanks = {
    " ", "\t", "\n", "\r", "\v", "\f", "\u00a0", "\u200b", "\u2028", "\u2029", "\u3000", "\ufeff"};

}  // namespace

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    size_t length = 0;
    for (const auto blank : kBlanks) {
      if (text.starts_with(blank)) length = blank.size();
    }
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace pipeline::summarization
