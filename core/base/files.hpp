// Writing files: as a whole or not at all, and what is said when that fails.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/base/error.hpp"

namespace pipeline {

// What cannot be written, why (`error`: an errno), and what to do: `remedy`, in a clause, as in "choose
// another --output"; where it is given and the path is what is wrong, a PL_ERROR_CONFIG.
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

// Writes a file that is there as a whole or not at all, also after a loss of power: as PATH.tmp, which is
// flushed to the disk and renamed. Throws write_error().
void write_atomically(const std::filesystem::path& path, std::string_view content,
                      std::string_view remedy = {});

}  // namespace pipeline
