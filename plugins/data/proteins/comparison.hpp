#pragma once

#include <pipeline/context.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/clusters/clusters.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/proteins/splits.hpp"

namespace pipeline::proteins {

struct ClusterCache {
  std::string folder;
  // Both functions may be empty. note: a line for the log. cancelled: true ends a wait for another process
  // with files::Cancelled.
  std::function<void(const std::string&)> note;
  std::function<bool()> cancelled;

  // What compute() gives, `count` numbers, kept in a file of the folder under `key`: for large sets comparing
  // sequences takes a while. Of several processes one computes and the others wait for it. A file that is
  // damaged is made again; one that cannot be written is done without, and the log says so.
  std::vector<uint32_t> get(const files::Hash128& key, size_t count,
                            const std::function<std::vector<uint32_t>()>& compute) const;
};

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
