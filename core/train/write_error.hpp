#pragma once

#include <filesystem>
#include <string_view>

#include "core/base/error.hpp"

namespace pipeline::train {

// What cannot be written, why (`error`: an errno), and what to do: `remedy`, in a clause, as in "choose another --output"; where it is given
// and the path is what is wrong, a PL_ERROR_CONFIG.
Error write_error(const std::filesystem::path& path, int error, std::string_view remedy = {});

// `work`, with what std::filesystem throws as errors of that kind.
template <class Work>
void on_disk(std::string_view remedy, Work&& work) {
  try {
    work();
  } catch (const std::filesystem::filesystem_error& error) {
    throw write_error(error.path2().empty() ? error.path1() : error.path2(), error.code().value(), remedy);
  }
}

}  // namespace pipeline::train
