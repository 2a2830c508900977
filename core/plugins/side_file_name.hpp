#pragma once

#include <string_view>

namespace pipeline::plugins {

// Whether a file that a task makes beside a result may be called so. Names that begin with a dot are the
// host's own.
inline bool is_side_file_name(std::string_view name) {
  return !name.empty() && !name.starts_with('.') && name.find('/') == name.npos;
}

}  // namespace pipeline::plugins
