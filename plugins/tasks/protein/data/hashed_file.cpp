#include "plugins/tasks/protein/data/hashed_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/common/files/hash128.hpp"
#include "plugins/tasks/common/files/open_file.hpp"
#include "plugins/tasks/protein/data/cache_names.hpp"

namespace pipeline::protein {

std::optional<std::string> read_whole(const std::string& path) {
  const files::OpenFile file(path);
  if (!file.is_open()) return std::nullopt;
  constexpr size_t kStep = size_t{1} << 16;
  std::string bytes;
  for (size_t size = 0;;) {
    bytes.resize(size + std::max(size, kStep));
    const ssize_t got = ::read(file.fd(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw files::system_error(path, kUnreadable);
    size += static_cast<size_t>(got);
    if (got > 0) continue;
    bytes.resize(size);
    return bytes;
  }
}

std::optional<std::string> read_hashed(const std::string& path, std::string_view magic, bool& problem) {
  problem = false;
  std::optional<std::string> all = read_whole(path);
  if (!all) return std::nullopt;
  std::string& bytes = *all;
  files::Hash128 hash;
  problem = true;
  if (bytes.size() < magic.size() + sizeof hash || !bytes.starts_with(magic)) return std::nullopt;
  std::memcpy(&hash, bytes.data() + bytes.size() - sizeof hash, sizeof hash);
  bytes.resize(bytes.size() - sizeof hash);
  if (files::hash128(bytes) != hash) return std::nullopt;
  problem = false;
  return bytes.substr(magic.size());
}

void write_hashed(const std::string& path, std::string_view magic, std::string_view held) {
  files::Hasher128 hasher;
  const files::Hash128 hash = hasher.update(magic).update(held).finish();
  const std::string part = path + ".part";
  std::ofstream stream(part, std::ios::binary | std::ios::trunc);
  stream << magic << held;
  stream.write(reinterpret_cast<const char*>(&hash), sizeof hash);
  stream.close();
  if (!stream || std::rename(part.c_str(), path.c_str()) != 0) {
    const files::DataError error = files::system_error(path, "check the free space and the permissions of the cache folder");
    std::remove(part.c_str());
    throw error;
  }
}

}  // namespace pipeline::protein
