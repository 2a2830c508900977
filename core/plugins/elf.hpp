#pragma once

#include <filesystem>
#include <string>

namespace pipeline::plugins {

// Why a file is no shared library that this program can load, as its headers show: it is of another machine,
// cut off, or something else. Empty: they show nothing wrong. The linker passes over such a file and says
// that there is none; of one that is cut off it may touch what is not there, which ends the process.
std::string elf_problem(const std::filesystem::path& file);

}  // namespace pipeline::plugins
