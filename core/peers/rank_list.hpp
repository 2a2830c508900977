#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipeline::peers {

// "rank 3", "ranks 0-2, 5". In ascending order, at least one.
std::string list_of(const std::vector<int32_t>& ranks);

// With the host, if all ranks are on one: "rank 3 (host b)", "ranks 0-2 (host a)".
std::string list_of(const std::vector<int32_t>& ranks, const std::vector<std::string>& hosts);

// "42 s", "0.5 s"
std::string seconds_text(double seconds);

}  // namespace pipeline::peers
