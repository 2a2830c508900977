#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace pipeline::text {

struct SpecialToken {
  std::string_view text;
  int32_t id;
};

struct FoundToken {
  size_t at;
  SpecialToken token;
};

// The special token that stands first in a text; of those that begin at the same place, the longest.
inline std::optional<FoundToken> first_special(std::string_view text, std::span<const SpecialToken> tokens) {
  std::optional<FoundToken> first;
  for (const SpecialToken& token : tokens) {
    const size_t at = text.substr(0, first ? first->at + token.text.size() : text.npos).find(token.text);
    if (at == text.npos || (first && at > first->at)) continue;
    if (!first || at < first->at || token.text.size() > first->token.text.size())
      first = FoundToken{at, token};
  }
  return first;
}

}  // namespace pipeline::text
