#include "plugins/tasks/protein/task/cluster_cache.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include <unistd.h>

#include "plugins/tasks/common/files/hash128.hpp"
#include "plugins/tasks/common/files/unused.hpp"

namespace pipeline::protein {
namespace {

namespace fs = std::filesystem;
using files::Hash128;

constexpr uint32_t kVersion = 1;  // raise it whenever the same sequences would give other clusters

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string_view bytes_of(const std::vector<uint32_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(uint32_t)};
}

Hash128 key_of(std::span<const std::string_view> sequences, const ClusterOptions& options) {
  files::Hasher128 hasher;
  hasher.update(bytes_of(kVersion)).update(bytes_of(options.identity)).update(bytes_of(options.coverage)).update(bytes_of(options.evalue));
  hasher.update(bytes_of(options.exact_up_to));
  for (const std::string_view sequence : sequences) hasher.update(sequence).update("\n");
  return hasher.finish();
}

// The clusters and after them their hash.
std::optional<std::vector<uint32_t>> load(const fs::path& path, size_t count) {
  std::ifstream in(path, std::ios::binary);
  std::vector<uint32_t> clusters(count);
  Hash128 hash;
  in.read(reinterpret_cast<char*>(clusters.data()), static_cast<std::streamsize>(count * sizeof(uint32_t)));
  in.read(reinterpret_cast<char*>(&hash), sizeof hash);
  if (!in || hash != files::hash128(bytes_of(clusters))) return std::nullopt;
  return clusters;
}

void save(const fs::path& path, const std::vector<uint32_t>& clusters) {
  const fs::path temporary = path.string() + "." + std::to_string(::getpid()) + ".tmp";
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << bytes_of(clusters) << bytes_of(files::hash128(bytes_of(clusters)));
  out.close();
  std::error_code ignored;
  if (out) fs::rename(temporary, path, ignored);
  fs::remove(temporary, ignored);
}

}  // namespace

std::vector<uint32_t> cached_clusters(const std::string& folder, std::span<const std::string_view> sequences, const ClusterOptions& options,
                                      const ClusterHooks& hooks) {
  const fs::path path = fs::path(folder) / ("protein-clusters-" + key_of(sequences, options).hex() + ".bin");
  if (auto known = load(path, sequences.size())) {
    files::mark_used(path.string());
    return *std::move(known);
  }
  std::vector<uint32_t> clusters = cluster_sequences(sequences, options, hooks);
  save(path, clusters);
  return clusters;
}

}  // namespace pipeline::protein
