#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/files/error.hpp"

namespace pipeline::clusters {

// A union-find: which numbers have been joined, directly or through others. Any thread may call any function.
class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), uint32_t{0});
  }

  bool joined(uint32_t a, uint32_t b) {
    const std::lock_guard lock(mutex_);
    return root(a) == root(b);
  }
  void join(uint32_t a, uint32_t b) {
    const std::lock_guard lock(mutex_);
    a = root(a), b = root(b);
    if (a > b) std::swap(a, b);
    parent_[b] = a;
  }
  // The smallest number of the set.
  uint32_t first(uint32_t a) {
    const std::lock_guard lock(mutex_);
    return root(a);
  }

 private:
  uint32_t root(uint32_t a) {
    while (parent_[a] != a) a = parent_[a] = parent_[parent_[a]];  // halves the path for the next one
    return a;
  }

  std::mutex mutex_;
  std::vector<uint32_t> parent_;
};

// When two sequences are similar: their best local alignment (BLOSUM62, gaps 11/1) has all three.
struct ClusterOptions {
  double identity = 0.3;  // least share of identical residues among the aligned pairs of residues; 0 to 1
  double coverage = 0.5;  // least share of the shorter sequence's residues that are aligned; 0 to 1
  double evalue = 1e-3;   // most alignments as good that chance gives a sequence against the set; above 0
  // With more distinct sequences than this, only pairs that share seeds are aligned (see Prefilter for
  // what that misses).
  size_t exact_up_to = 3000;
};

// A cluster for each sequence (one-letter codes; X and letters that are no amino acid are unknown residues),
// numbered from 0 in the order in which clusters first appear. Single linkage: sequences that a chain of
// similar pairs joins are in one cluster, so none is similar to a sequence of another cluster. Equal
// sequences are together whatever their length; one so short that not even a perfect match is significant
// (about 12 residues, depending on the set) joins the first longer sequence that contains it, if any.
//
// A function of the input alone: the number of threads changes nothing. Throws files::DataError for options
// out of range and sequences longer than kMaxAlignedLength.
std::vector<uint32_t> cluster_sequences(std::span<const std::string_view> sequences,
                                        const ClusterOptions& options = {}, const files::Hooks& hooks = {});

struct SimilarOptions {
  ClusterOptions similar;    // but exact_up_to plays no part
  size_t set_size = 1;       // exact_up_to is ignored
  bool prefiltered = false;  // align those pairs alone that share seeds (Prefilter), not every one
};

// Nonzero for each query that is equal to one of `references` or similar to it. Throws as
// cluster_sequences().
std::vector<uint8_t> find_similar(std::span<const std::string_view> queries,
                                  std::span<const std::string_view> references, const SimilarOptions& options,
                                  const files::Hooks& hooks = {});

// A fold, from 0, for each cluster, so that the folds have about the same number of residues: the largest
// cluster first, always to the fold that has fewest (Graham's LPT rule: the fullest fold is at most a third
// over the best possible). Among equals the lower number goes first. There may be more folds than clusters;
// some are then empty. Throws files::DataError if `folds` is 0.
std::vector<uint32_t> assign_folds(std::span<const uint64_t> cluster_residues, uint32_t folds);

}  // namespace pipeline::clusters
