#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/csv.hpp"

namespace pipeline::proteins {

using pipeline::csv_field;
using pipeline::exactly;

constexpr size_t kNamesShown = 5;

// "a, b and 7 more": the first of some names, for the log.
inline std::string first_of(const std::vector<std::string>& names, size_t most = kNamesShown) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

// "1 chain", "2 chains".
inline std::string counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// "3 chains of 24 residues, which have fewer than ...": of samples that are left out, which have fewer known
// residues than `least`.
inline std::string left_out_text(const std::vector<std::string>& names, uint64_t residues,
                                 const std::string& noun, int64_t least) {
  return counted(names.size(), noun) + " of " + std::to_string(residues) + " residues, which have " +
         (least == 1 ? "no known one"
                     : "fewer than task.data.min_residues (" + std::to_string(least) + ") known ones") +
         ": " + first_of(names);
}

}  // namespace pipeline::proteins
