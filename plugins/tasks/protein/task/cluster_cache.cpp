#include "plugins/tasks/protein/task/cluster_cache.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include <unistd.h>

#include "plugins/tasks/common/files/bytes_of.hpp"
#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/common/files/file_lock.hpp"
#include "plugins/tasks/common/files/unused.hpp"
#include "plugins/tasks/protein/data/cache_names.hpp"

namespace pipeline::protein {
namespace {

namespace fs = std::filesystem;
using files::bytes_of;
using files::Hash128;

// The numbers and after them their hash.
std::optional<std::vector<uint32_t>> load(const fs::path& path, size_t count) {
  std::ifstream in(path, std::ios::binary);
  std::vector<uint32_t> numbers(count);
  Hash128 hash;
  in.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(count * sizeof(uint32_t)));
  in.read(reinterpret_cast<char*>(&hash), sizeof hash);
  if (!in || hash != files::hash128(bytes_of(numbers))) return std::nullopt;
  return numbers;
}

// Throws DataError.
void save(const fs::path& path, const std::vector<uint32_t>& numbers) {
  const fs::path temporary = path.string() + "." + std::to_string(::getpid()) + ".tmp";
  std::error_code failure;
  errno = 0;
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << bytes_of(numbers) << bytes_of(files::hash128(bytes_of(numbers)));
    out.close();
    if (!out) failure = std::error_code(errno != 0 ? errno : EIO, std::generic_category());
  }
  if (!failure) fs::rename(temporary, path, failure);
  if (!failure) return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw files::DataError(path.string() + ": " + failure.message(), failure.value());
}

}  // namespace

std::vector<uint32_t> ClusterCache::get(const Hash128& key, size_t count, const std::function<std::vector<uint32_t>()>& compute) const {
  const fs::path path = fs::path(folder) / ("protein-clusters-" + key.hex() + ".bin");
  const auto tell = [&](const std::string& line) {
    if (note) note(line);
  };
  auto known = load(path, count);
  std::optional<files::FileLock> lock;
  if (!known) {
    try {
      lock.emplace((fs::path(folder) / kLockName).string(), [&] { tell("waiting for another process that compares sequences"); },
                   cancelled);
      known = load(path, count);         // the other has it by now
    } catch (const files::DataError&) {  // no lock, no cache: save() says so
    }
  }
  if (known) {
    files::mark_used(path.string());
    return *std::move(known);
  }
  std::vector<uint32_t> numbers = compute();
  try {
    save(path, numbers);
  } catch (const files::DataError& error) {
    tell(std::string("what the comparison of sequences gave cannot be kept, so every process and run compares them again: ") +
         error.what());
  }
  return numbers;
}

}  // namespace pipeline::protein
