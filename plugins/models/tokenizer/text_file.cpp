#include "tokenizer/text_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "tokenizer/tokenizer.hpp"

namespace pipeline::tokenizer {
namespace {

namespace fs = std::filesystem;

// Call it before anything else can change errno.
Error system_error(const fs::path& path, const std::string& problem) {
  const int code = errno;
  return Error(path.string() + ": " + problem + ": " + std::strerror(code), code);
}

// Waits until a file, or the names in a folder, are on the disk. False: see errno.
bool sync(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::fsync(fd) == 0;
  const int code = errno;
  ::close(fd);
  errno = code;
  return done;
}

}  // namespace

NamedFiles named(const std::map<std::string, std::string>& texts, const std::string& prefix) {
  NamedFiles files;
  for (const auto& [name, text] : texts) files[name] = {prefix + name, text};
  return files;
}

std::map<std::string, std::string> texts_of(const NamedFiles& files) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, file] : files) texts[name] = file.text;
  return texts;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

NamedText read_file(const fs::path& path, uint64_t most_bytes) {
  try {
    return {path.string(), files::read_regular(path.string(), most_bytes)};
  } catch (const files::DataError& error) {
    throw Error(error.what(), error.code());
  }
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream || !sync(path)) throw system_error(path, "cannot be written");
}

void sync_folder(const fs::path& path) { sync(path); }

}  // namespace pipeline::tokenizer
