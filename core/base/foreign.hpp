#pragma once

#include <filesystem>
#include <string>
#include <string_view>

// Names what people put where a file or a model's folder is expected. Each function gives what comes after
// "PATH: " in an error: what is there and what to do; or nothing where it knows no better than its caller.
namespace pipeline::foreign {

// A file that cannot be what it is called, by how it begins (the first kStart bytes are enough): a Git LFS
// pointer, a web page, a format of weights that is not read.
inline constexpr size_t kStart = 512;
std::string content(std::string_view start);

// Judges by content() a file that may be there.
std::string file(const std::filesystem::path& path);

// What to do if a path that is not there is meant as a model's id on the hub. Empty: it cannot be one.
std::string hub_remedy(const std::filesystem::path& path);

// Where a Hugging Face model's folder is expected, and a file that it must have is not found: a hub's id, the
// hub's cache, a folder too high or too low, an adapter, weights in another format, a file.
std::string folder(const std::filesystem::path& path);

}  // namespace pipeline::foreign
