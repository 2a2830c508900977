// A comparison, or one run, as a page: one HTML file that needs no network.
#pragma once

#include <string>

#include "core/report/comparison.hpp"

namespace pipeline::report {

// Curves of more steps are thinned to this many points.
inline constexpr size_t kMostPoints = 2000;

// With the tables and pictures that tasks have left in the runs' folders. `compared`: it is about whether the
// runs are the same; otherwise about each of them.
std::string page(const Comparison& comparison, const std::string& title, bool compared);

}  // namespace pipeline::report
