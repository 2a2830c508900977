#include "plugins/tasks/protein/data/hashed_file.hpp"

#include <cstdio>
#include <fstream>
#include <iterator>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/common/files/hash128.hpp"

namespace pipeline::protein {

std::optional<std::string> read_hashed(const std::string& path, std::string_view magic, bool& problem) {
  problem = false;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
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
