#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/csv.hpp"
#include "plugins/data/files/texts.hpp"

namespace pipeline::proteins {

using files::counted;
using pipeline::csv_field;
using pipeline::exactly;

constexpr size_t kNamesShown = 5;

inline std::string first_of(const std::vector<std::string>& names, size_t most = kNamesShown) {
  return files::first_of(names, most);
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
