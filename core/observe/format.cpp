#include "core/observe/format.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace pipeline::observe {
namespace {

std::string scaled(double value, const char* const* units, size_t unit_count) {
  size_t unit = 0;
  // Not 1000 but where rounding to three digits would print it.
  while (value >= 999.5 && unit + 1 < unit_count) value /= 1000, ++unit;
  if (unit == 0) return fmt::format("{:.0f}{}", value, units[0]);
  return fmt::format("{:.{}f}{}", value, value < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace

std::string human_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {" B", " kB", " MB", " GB", " TB", " PB"};
  return scaled(static_cast<double>(bytes), kUnits, std::size(kUnits));
}

std::string human_count(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  return scaled(count, kUnits, std::size(kUnits));
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto total = static_cast<uint64_t>(std::llround(std::max(0.0, seconds)));
  const uint64_t s = total % 60, m = total / 60 % 60, h = total / 3600 % 24, d = total / 86400;
  if (d > 0) return fmt::format("{}d {:02}:{:02}", d, h, m);
  if (h > 0) return fmt::format("{}:{:02}:{:02}", h, m, s);
  return fmt::format("{}:{:02}", m, s);
}

std::string grouped(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size()));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

}  // namespace pipeline::observe
