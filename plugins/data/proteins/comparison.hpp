#pragma once

#include <pipeline/context.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/clusters/clusters.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/proteins/cluster_cache.hpp"
#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/proteins/splits.hpp"

namespace pipeline::proteins {

// The sequences of samples compared with each other, with progress, cancellation and a cache; what is not
// exact is said in the log.
class Comparison {
 public:
  Comparison(const ProteinData& options, const Context& context);

  // Gives the rows their clusters, numbered from 0 in the order in which they first appear: samples are in
  // one if a chain of similar chains, and of chains of one sample, joins them. Returns whether every pair of
  // sequences was aligned.
  bool cluster(const Samples& samples, std::span<SplitRow> rows) const;

  struct Side {
    const Samples& samples;
    std::span<const SplitRow> rows;
  };
  // Nonzero for each of `queries` that has a chain like one of `references`. set_size: the sequences of the
  // set that both are parts of. Aligns every pair where is_affordable(), else those that share seeds.
  std::vector<uint8_t> similar(const Side& queries, const Side& references, size_t set_size) const;
  static bool is_affordable(std::span<const SplitRow> queries, std::span<const SplitRow> references);

 private:
  const Context& context_;
  clusters::ClusterOptions options_;
  ClusterCache cache_;
};

size_t count_chains(std::span<const SplitRow> rows);
uint64_t hash_of(std::string_view text);

// Where the task keeps what it made of the data.
std::string cache_folder(const ProteinData& options, const Context& context);
// The threads of the one process that prepares data, while the others of its host wait for it.
unsigned data_threads(const Context& context);
files::Hooks data_hooks(const std::string& what, const Context& context);

}  // namespace pipeline::proteins
