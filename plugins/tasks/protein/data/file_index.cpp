#include "plugins/tasks/protein/data/file_index.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <type_traits>
#include <vector>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::protein {
namespace {

// The file: magic, then for each file the size of its relative path, the path, state and hash; at the end the hash of all before.
constexpr std::string_view kMagic = "PLPROTI1";

template <class T>
void put(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
bool take(std::string_view& in, T& value) {
  if (in.size() < sizeof value) return false;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return true;
}

}  // namespace

std::string FileIndex::path_in(const std::string& folder, const std::string& root) {
  return (std::filesystem::path(folder) / ("protein-files-" + files::hash128(root).hex() + ".index")).string();
}

FileIndex::FileIndex(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return;
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (parse(bytes)) return;
  entries_.clear();
  problem_ = path + ": damaged, or of another version: every file is read again";
}

bool FileIndex::parse(std::string_view bytes) {
  files::Hash128 hash;
  if (bytes.size() < kMagic.size() + sizeof hash || !bytes.starts_with(kMagic)) return false;
  std::memcpy(&hash, bytes.data() + bytes.size() - sizeof hash, sizeof hash);
  bytes.remove_suffix(sizeof hash);
  if (files::hash128(bytes) != hash) return false;
  bytes.remove_prefix(kMagic.size());
  while (!bytes.empty()) {
    uint64_t size = 0;
    Entry entry;
    if (!take(bytes, size) || size > bytes.size()) return false;
    std::string relative(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (!take(bytes, entry.state) || !take(bytes, entry.hash)) return false;
    entries_.emplace(std::move(relative), entry);
  }
  return true;
}

const files::Hash128* FileIndex::find(const std::string& relative, const files::FileState& state) const {
  const auto found = entries_.find(relative);
  return found != entries_.end() && found->second.state == state ? &found->second.hash : nullptr;
}

void FileIndex::set(const std::string& relative, const files::FileState& state, const files::Hash128& hash) {
  entries_.insert_or_assign(relative, Entry{state, hash});
}

void FileIndex::save(const std::string& path) const {
  std::string bytes(kMagic);
  for (const auto& [relative, entry] : entries_) {
    put(bytes, uint64_t{relative.size()});
    bytes += relative;
    put(bytes, entry.state);
    put(bytes, entry.hash);
  }
  put(bytes, files::hash128(bytes));
  const std::string part = path + ".part";
  std::ofstream stream(part, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  if (!stream || std::rename(part.c_str(), path.c_str()) != 0) {
    const files::DataError error = files::system_error(path, "check the free space and the permissions of the cache folder");
    std::remove(part.c_str());
    throw error;
  }
}

}  // namespace pipeline::protein
