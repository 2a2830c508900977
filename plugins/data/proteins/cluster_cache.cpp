#include "plugins/data/proteins/cluster_cache.hpp"

#include <cstring>
#include <filesystem>
#include <optional>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/stores/record_store.hpp"
#include "plugins/data/structures/cache_upkeep.hpp"

namespace pipeline::proteins {
namespace {

namespace fs = std::filesystem;
using files::Hash128;

constexpr stores::Kind kClusters{.name = "CLUSTERS", .version = 1, .remedy = "sequences are compared again"};

std::optional<std::vector<uint32_t>> load(const std::string& path, const Hash128& key, size_t count) try {
  bool problem = false;
  const auto held = stores::load(path, kClusters, key, problem);
  if (!held || held->size() != count * sizeof(uint32_t)) return std::nullopt;
  std::vector<uint32_t> numbers(count);
  std::memcpy(numbers.data(), held->data(), held->size());
  return numbers;
} catch (const files::DataError&) {  // save() says so
  return std::nullopt;
}

}  // namespace

std::vector<uint32_t> ClusterCache::get(const Hash128& key, size_t count,
                                        const std::function<std::vector<uint32_t>()>& compute) const {
  const std::string path = fs::path(folder) / ("protein-clusters-" + key.hex() + ".bin");
  const auto tell = [&](const std::string& line) {
    if (note) note(line);
  };
  auto known = load(path, key, count);
  std::optional<files::FileLock> lock;
  if (!known) {
    try {
      lock.emplace((fs::path(folder) / structures::kLockName).string(),
                   [&] { tell("waiting for another process that compares sequences"); }, cancelled);
      known = load(path, key, count);    // the other has it by now
    } catch (const files::DataError&) {  // no lock, no cache: save() says so
    }
  }
  if (known) {
    files::mark_used(path);
    return *std::move(known);
  }
  std::vector<uint32_t> numbers = compute();
  try {
    stores::save(path, kClusters, key, files::bytes_of(numbers));
  } catch (const files::DataError& error) {
    tell(std::string(
             "the results of comparing sequences cannot be kept, so every process and run repeats it: ") +
         error.what());
  }
  return numbers;
}

}  // namespace pipeline::proteins
