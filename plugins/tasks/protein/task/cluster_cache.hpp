#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/protein/clusters/clusters.hpp"

namespace pipeline::protein {

// cluster_sequences(), kept in a file of `folder` for the same sequences and options: for large sets it takes a while. A file that is
// damaged is made again; one that cannot be written is done without.
std::vector<uint32_t> cached_clusters(const std::string& folder, std::span<const std::string_view> sequences, const ClusterOptions& options,
                                      const ClusterHooks& hooks);

}  // namespace pipeline::protein
