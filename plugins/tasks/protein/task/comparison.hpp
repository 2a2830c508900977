#pragma once

#include <pipeline/context.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugins/tasks/protein/clusters/clusters.hpp"
#include "plugins/tasks/protein/task/cluster_cache.hpp"
#include "plugins/tasks/protein/task/config.hpp"
#include "plugins/tasks/protein/task/entry.hpp"

namespace pipeline::protein {

// The sequences of samples compared with each other, with progress, cancellation and a cache; what is not
// exact is said in the log.
class Comparison {
 public:
  Comparison(const ProteinConfig& config, const Context& context);

  // Gives the samples their clusters, numbered from 0 in the order in which they first appear: samples are in
  // one if a chain of similar chains, and of chains of one sample, joins them. Returns whether every pair of
  // sequences was aligned.
  bool cluster(std::vector<Entry>& entries) const;

  // Nonzero for each of `queries` that has a chain like one of `references`. set_size: the sequences of the
  // set that both are parts of. Aligns every pair where is_affordable(), else those that share seeds.
  std::vector<uint8_t> similar(std::span<const Entry* const> queries,
                               std::span<const Entry* const> references, size_t set_size) const;
  static bool is_affordable(std::span<const Entry* const> queries, std::span<const Entry* const> references);

 private:
  files::Hooks hooks() const;

  const Context& context_;
  ClusterOptions options_;
  ClusterCache cache_;
};

size_t count_chains(std::span<const Entry> entries);

// Where the task keeps what it made of the data.
std::string cache_folder(const ProteinConfig& config, const Context& context);
// Of the one process that prepares data, while the others of its host wait for it.
unsigned data_threads(const Context& context);

}  // namespace pipeline::protein
