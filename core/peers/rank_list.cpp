#include "core/peers/rank_list.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pipeline::peers {

std::string list_of(const std::vector<int32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += i == last ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string list_of(const std::vector<int32_t>& ranks, const std::vector<std::string>& hosts) {
  const auto host = [&](int32_t rank) -> const std::string& { return hosts[static_cast<std::size_t>(rank)]; };
  const std::string& first = host(ranks.front());
  const bool one_host =
      std::all_of(ranks.begin(), ranks.end(), [&](int32_t rank) { return host(rank) == first; });
  return one_host && !first.empty() ? fmt::format("{} (host {})", list_of(ranks), first) : list_of(ranks);
}

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.2g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

}  // namespace pipeline::peers
