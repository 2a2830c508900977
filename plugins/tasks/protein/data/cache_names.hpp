#pragma once

#include <regex>
#include <string>

namespace pipeline::protein {

// The names of what this task leaves in a cache folder, and what nothing has used for long may be removed of;
// the lock stays.
inline const std::regex& removable_names() {
  static const std::regex names(R"(protein-(structures-[0-9]+\.(cache|index)|files-[0-9a-f]{32}\.index|)"
                                R"(clusters-[0-9a-f]{32}\.bin)(\.part)?|)"
                                R"(protein-unusable-[0-9a-f]{8}\.txt(\.[0-9]+\.part)?)");
  return names;
}

// Of these what is written under the lock before it gets its name: whoever holds the lock and finds one may
// remove it.
inline const std::regex& part_names() {
  static const std::regex names(R"(protein-(structures-[0-9]+\.cache|files-[0-9a-f]{32}\.index|)"
                                R"(clusters-[0-9a-f]{32}\.bin)\.part)");
  return names;
}

constexpr const char* kLockName = "protein-data.lock";

inline bool is_cache_name(const std::string& name) {
  return name == kLockName || (name.starts_with("protein-") && std::regex_match(name, removable_names()));
}

}  // namespace pipeline::protein
