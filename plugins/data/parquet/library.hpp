#pragma once

#include <string>
#include <string_view>

namespace pipeline::parquet {

// A function of the library that links Arrow, which is loaded when it is first asked for and stays for the
// process's life. Throws files::DataError that begins with `path`, the file that it is wanted for.
void* library_symbol(const std::string& path, const char* symbol);

// The library's error in one line: Arrow's messages have several, and name its own sources.
std::string one_line(std::string_view problem);

}  // namespace pipeline::parquet
