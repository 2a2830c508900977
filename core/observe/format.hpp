// Numbers as people read them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace pipeline::observe {

std::string human_bytes(uint64_t bytes);                    // "512 B", "1.9 GB" (powers of 1000)
std::string human_count(double count);                      // "950", "12.3k", "124.4M"
std::string human_duration(double seconds);                 // "0:07", "12:34", "2:03:04", "3d 04:05"
std::string grouped(uint64_t count);                        // "124,439,808"
std::string listed(const std::vector<std::string>& names);  // the first ones: "a, b and 3 more"

// The number; a NaN without its sign, which tells nothing and would be printed: "-nan".
inline double without_sign_if_nan(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;
}

}  // namespace pipeline::observe
