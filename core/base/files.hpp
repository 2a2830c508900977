// Files, read only where they are files; written as a whole or not at all; and what is said when that fails.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace pipeline {

// Whether there is something at the path; false for what cannot be looked at, such as a link to itself.
bool is_there(const std::filesystem::path& path);

// A file, open at its beginning. Throws Error (PL_ERROR_CONFIG) for what cannot be read, and for what is no
// file: a folder, or a FIFO or device, which may never end.
std::ifstream open_file(const std::filesystem::path& path);
// All that is in it.
std::string read_file(const std::filesystem::path& path);
// What is left of a stream. In blocks: an iterator over its characters takes several calls for each.
std::string rest_of(std::istream& stream);

// The error of a path that cannot be written: why (`error`: an errno), and what to do (`remedy`: a clause, as
// in "choose another --output"). PL_ERROR_CONFIG where a remedy is given and the path is at fault.
Error write_error(const std::filesystem::path& path, int error, std::string_view remedy = {});

// Runs `work`; what std::filesystem throws becomes a write_error().
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
