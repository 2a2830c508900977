#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "files/regular_file.hpp"

namespace pipeline::tokenizer {

// A file's text and the name for it in errors.
struct NamedText {
  std::string path;
  std::string text;
};

// Texts by the names that Hugging Face gives the files.
using NamedFiles = std::map<std::string, NamedText>;
NamedFiles named(const std::map<std::string, std::string>& texts,
                 const std::string& prefix);  // of their paths
std::map<std::string, std::string> texts_of(const NamedFiles& files);

bool is_there(const std::filesystem::path& path);

// files::read_regular(). Throws Error.
NamedText read_file(const std::filesystem::path& path, uint64_t most_bytes = files::kMostTokens);

// Waits until it is on the disk. Throws Error where it cannot be written.
void write_file(const std::filesystem::path& path, const std::string& text);

// Waits until the names in a folder are on the disk, where its file system can.
void sync_folder(const std::filesystem::path& path);

}  // namespace pipeline::tokenizer
